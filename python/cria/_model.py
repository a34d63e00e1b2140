"""Models: a file with its own engine."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any, List, Literal, Optional, Sequence, Tuple, Union, overload

import numpy as np
import numpy.typing as npt

from . import _foreign
from ._answer import Answer, Stream
from ._engine import Engine, Perplexity, Prompt
from ._file import ModelFile, Path
from ._options import Messages, TokenIds


class _Named(type):
    """The class of Model: Model.from_pretrained is an error that names what there is."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            _foreign.reject_attribute(f"type object {cls.__name__!r}", name)


class Model(ModelFile, metaclass=_Named):
    """A GGUF file. The model's own engine, made on first use with the options given here, does the work; engine()
    makes others."""

    def __init__(
        self,
        path: Path = "",
        *,
        loras: Sequence[Union[Path, Tuple[Path, float]]] = (),
        mmap: bool = True,
        mlock: bool = False,
        **engine_options: Any,
    ) -> None:
        """loras: adapters, as files or (file, scale). engine_options: as in Engine."""
        _foreign.reject_arguments(engine_options)
        if path == "":
            raise TypeError("the file is missing: cria.Model(FILE)")
        inspect.signature(Engine).bind(self, **engine_options)  # a wrong one is told now
        super().__init__(path, loras, mmap, mlock)
        self._engine_options = engine_options
        self._lock = threading.Lock()
        self._engine: Optional[Engine] = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            _foreign.reject_attribute(f"{type(self).__name__!r} object", name)

        def __call__(self, *prompt: Any, **options: Any) -> Any:
            _foreign.reject_call()

    def __repr__(self) -> str:
        return f"<cria.Model {self.path}>"

    def engine(self, **options: Any) -> Engine:
        """Returns another engine with its own options."""
        _foreign.reject_arguments(options)
        return Engine(self, **options)

    @property
    def own_engine(self) -> Engine:
        """The model's own engine, made on first use."""
        with self._lock:
            if self._engine is None:
                self._engine = Engine(self, **self._engine_options)
            return self._engine

    def close(self) -> None:
        """Frees the model and its own engine; every later call is an Error."""
        if self._engine is not None:
            self._engine.close()
        super().close()

    # Methods of Engine, forwarded to the model's own.

    @overload
    def chat(self, messages: Messages, *, stream: Literal[False] = False, **options: Any) -> Answer: ...
    @overload
    def chat(self, messages: Messages, *, stream: Literal[True], **options: Any) -> Stream: ...
    def chat(self, messages: Messages, *, stream: bool = False, **options: Any) -> Union[Answer, Stream]:
        """Answers a conversation or the user's text; see Engine.chat(). options: as in Engine.stream()."""
        return self.own_engine.answer(stream, messages=messages, **options)

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = False, **options: Any) -> Answer: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], **options: Any) -> Stream: ...
    def generate(self, prompt: Prompt, *, stream: bool = False, **options: Any) -> Union[Answer, Stream]:
        """Continues a text or tokens; see Engine.generate()."""
        return self.own_engine.answer(stream, prompt=prompt, **options)

    def logits(self, tokens: TokenIds, first: int = 0) -> npt.NDArray[np.float32]:
        """Returns the logits after each of tokens[first:]; see Engine.logits()."""
        return self.own_engine.logits(tokens, first)

    def embed(
        self, text: Union[Prompt, List[str]], pooling: Optional[str] = None
    ) -> Union[npt.NDArray[np.float32], List[npt.NDArray[np.float32]]]:
        """Returns a unit vector, or one for each text of a list; see Engine.embed()."""
        return self.own_engine.embed(text, pooling)

    def rerank(self, query: str, documents: Sequence[str]) -> npt.NDArray[np.float32]:
        """Returns a score for each document; see Engine.rerank()."""
        return self.own_engine.rerank(query, documents)

    def perplexity(self, text: Union[str, bytes], *, window: int = 512, stride: int = 0, max_windows: int = 0) -> Perplexity:
        """Measures perplexity; see Engine.perplexity()."""
        return self.own_engine.perplexity(text, window=window, stride=stride, max_windows=max_windows)
