"""Models: a file with its tokenizer and chat template."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._engine import Engine, Prompt, _int_array
from ._options import Messages, TokenIds, message_array, token_array, variables_text

_SPECIAL, _MARKERS = 1, 2


class Model(lib.Owner):
    """A GGUF file. Answers and numbers come from an engine of the model's own, which is made when first needed, with the options given
    here; engine() makes others."""

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        loras: Sequence[Union[str, Tuple[str, float]]] = (),
        mmap: bool = True,
        mlock: bool = False,
        **engine_options: Any,
    ) -> None:
        """loras: adapters, as files or (file, scale). engine_options: as of Engine."""
        adapters = [(lora, 1.0) if isinstance(lora, str) else lora for lora in loras]
        options = lib.ModelOptions(
            no_mmap=int(not mmap),
            mlock=int(mlock),
            loras=lib.texts(file for file, _ in adapters),
            lora_scales=(ctypes.c_float * len(adapters))(*(scale for _, scale in adapters)) if adapters else None,
            n_loras=len(adapters),
        )
        super().__init__("model", lib.created("model_load", os.fsencode(path), ctypes.byref(options)))
        info = lib.ModelInfo()
        lib.call("model_get_info", self._handle, ctypes.byref(info))
        self.path: str = os.fsdecode(info.path)
        self.name: str = info.name.decode(errors="replace")
        self.n_vocab: int = info.n_vocab
        self.n_ctx_train: int = info.n_ctx
        self.n_embd: int = info.n_embd
        self.bos: Optional[int] = info.bos if info.bos >= 0 else None
        self.eos: Optional[int] = info.eos if info.eos >= 0 else None
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

    def tokenize(self, text: Union[str, bytes], *, special: bool = True, markers: bool = False) -> npt.NDArray[np.int32]:
        """special: BOS and EOS as the model wants them. markers: control tokens written in the text become their ids."""
        data = text.encode() if isinstance(text, str) else text
        flags = (_SPECIAL if special else 0) | (_MARKERS if markers else 0)
        return _int_array("tokenize", self._handle, data, len(data), flags, guess=len(data) + 8)

    def detokenize_bytes(self, tokens: TokenIds, *, special: bool = False) -> bytes:
        """special: the texts of control tokens too."""
        _array, pointer, n = token_array(tokens)
        return _bytes("detokenize", self._handle, pointer, n, _SPECIAL if special else 0, guess=8 * n + 16)

    def detokenize(self, tokens: TokenIds, *, special: bool = False) -> str:
        """As text; what is no UTF-8 becomes U+FFFD."""
        return self.detokenize_bytes(tokens, special=special).decode(errors="replace")

    def apply_template(
        self,
        messages: Messages,
        *,
        variables: Optional[Mapping[str, Any]] = None,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
    ) -> str:
        """The conversation as the model reads it, with the opening of the answer."""
        array, n = message_array(messages)
        text = _bytes("apply_template", self._handle, array, n, variables_text(variables, tools), guess=4096)
        return text.decode(errors="replace")

    def template_tokens(
        self,
        messages: Messages,
        *,
        variables: Optional[Mapping[str, Any]] = None,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
    ) -> npt.NDArray[np.int32]:
        """The same as tokens: what messages contain never becomes a control token."""
        array, n = message_array(messages)
        return _int_array("template_tokens", self._handle, array, n, variables_text(variables, tools), guess=4096)

    def chat(self, messages: Messages, *, stream: bool = False, **options: Any) -> Any:
        """Engine.chat() of the model's own engine."""
        return self.own_engine.chat(messages, stream=stream, **options)

    def generate(self, prompt: Prompt, *, stream: bool = False, **options: Any) -> Any:
        """Engine.generate() of the model's own engine."""
        return self.own_engine.generate(prompt, stream=stream, **options)

    def logits(self, tokens: TokenIds, first: int = 0) -> npt.NDArray[np.float32]:
        """Engine.logits() of the model's own engine."""
        return self.own_engine.logits(tokens, first)

    def embed(self, text: Union[Prompt, list[str]], pooling: str = "mean") -> npt.NDArray[np.float32]:
        """Engine.embed() of the model's own engine."""
        return self.own_engine.embed(text, pooling)


def _bytes(function: str, *arguments: Any, guess: int) -> bytes:
    array, n = lib.fill(function, *arguments, make=ctypes.create_string_buffer, as_pointer=lambda a: a, guess=guess)
    return bytes(array.raw[:n])
