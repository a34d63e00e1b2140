"""Models: a file, with an engine of its own."""

from __future__ import annotations

import threading
from typing import Any, List, Literal, Optional, Sequence, Tuple, Union, overload

import numpy as np
import numpy.typing as npt

from ._answer import Answer, Stream
from ._engine import Engine, Perplexity, Prompt
from ._file import ModelFile, Path
from ._options import Messages, TokenIds


class Model(ModelFile):
    """A GGUF file. Answers and numbers come from an engine of the model's own, which is made when first needed, with the options given
    here; engine() makes others."""

    def __init__(
        self,
        path: Path,
        *,
        loras: Sequence[Union[Path, Tuple[Path, float]]] = (),
        mmap: bool = True,
        mlock: bool = False,
        **engine_options: Any,
    ) -> None:
        """loras: adapters, as files or (file, scale). engine_options: as of Engine."""
        super().__init__(path, loras, mmap, mlock)
        self._engine_options = engine_options
        self._lock = threading.Lock()
        self._engine: Optional[Engine] = None

    def engine(self, **options: Any) -> Engine:
        """Another engine, with options of its own."""
        return Engine(self, **options)

    @property
    def own_engine(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = Engine(self, **self._engine_options)
            return self._engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
        super().close()

    # What follows is that of Engine, by the model's own.

    @overload
    def chat(self, messages: Messages, *, stream: Literal[False] = False, **options: Any) -> Answer: ...
    @overload
    def chat(self, messages: Messages, *, stream: Literal[True], **options: Any) -> Stream: ...
    def chat(self, messages: Messages, *, stream: bool = False, **options: Any) -> Union[Answer, Stream]:
        return self.own_engine.answer(stream, messages=messages, **options)

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = False, **options: Any) -> Answer: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], **options: Any) -> Stream: ...
    def generate(self, prompt: Prompt, *, stream: bool = False, **options: Any) -> Union[Answer, Stream]:
        return self.own_engine.answer(stream, prompt=prompt, **options)

    def logits(self, tokens: TokenIds, first: int = 0) -> npt.NDArray[np.float32]:
        return self.own_engine.logits(tokens, first)

    def embed(self, text: Union[Prompt, List[str]], pooling: str = "mean") -> npt.NDArray[np.float32]:
        return self.own_engine.embed(text, pooling)

    def perplexity(self, text: Union[str, bytes], *, window: int = 512, stride: int = 0, max_windows: int = 0) -> Perplexity:
        return self.own_engine.perplexity(text, window=window, stride=stride, max_windows=max_windows)
