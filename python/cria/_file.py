"""A GGUF file with its tokenizer and chat template."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._options import Messages, TokenIds, message_array, token_array, variables_text

_SPECIAL, _MARKERS = 1, 2
Path = Union[str, "os.PathLike[str]"]


class ModelFile(lib.Owner):
    """Everything of a model that needs no engine."""

    def __init__(self, path: Path, loras: Sequence[Union[Path, Tuple[Path, float]]], mmap: bool, mlock: bool) -> None:
        adapters = [lora if isinstance(lora, tuple) else (lora, 1.0) for lora in loras]
        options = lib.ModelOptions(
            no_mmap=int(not mmap),
            mlock=int(mlock),
            loras=lib.texts(lib.c_path(file) for file, _ in adapters),
            lora_scales=(ctypes.c_float * len(adapters))(*(scale for _, scale in adapters)) if adapters else None,
            n_loras=len(adapters),
        )
        super().__init__("model", lib.created("model_load", lib.c_path(path), ctypes.byref(options)))
        info = lib.ModelInfo()
        lib.call("model_get_info", self._handle, ctypes.byref(info))
        self.path: str = os.fsdecode(info.path)
        self.name: str = info.name.decode(errors="replace")
        self.n_vocab: int = info.n_vocab
        self.n_ctx_train: int = info.n_ctx
        self.n_embd: int = info.n_embd
        self.has_chat_template: bool = bool(info.has_chat_template)
        self.bos: Optional[int] = info.bos if info.bos >= 0 else None
        self.eos: Optional[int] = info.eos if info.eos >= 0 else None

    def tokenize(self, text: Union[str, bytes], *, special: bool = True, markers: bool = False) -> npt.NDArray[np.int32]:
        """special: add BOS and EOS as the model requires. markers: control tokens in the text become their ids."""
        data = text.encode() if isinstance(text, str) else text
        flags = (_SPECIAL if special else 0) | (_MARKERS if markers else 0)
        return int_array("tokenize", self._handle, data, len(data), flags, guess=len(data) + 8)

    def detokenize_bytes(self, tokens: TokenIds, *, special: bool = False) -> bytes:
        """special: include the texts of control tokens."""
        _array, pointer, n = token_array(tokens)
        return _bytes("detokenize", self._handle, pointer, n, _SPECIAL if special else 0, guess=8 * n + 16)

    def detokenize(self, tokens: TokenIds, *, special: bool = False) -> str:
        """Returns text; invalid UTF-8 becomes U+FFFD."""
        return self.detokenize_bytes(tokens, special=special).decode(errors="replace")

    def apply_template(
        self,
        messages: Messages,
        *,
        variables: Optional[Mapping[str, Any]] = None,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
    ) -> str:
        """Returns the conversation as the model reads it, with the generation prompt."""
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
        """Returns the same as tokens; text of messages never becomes a control token."""
        array, n = message_array(messages)
        return int_array("template_tokens", self._handle, array, n, variables_text(variables, tools), guess=4096)


def int_array(function: str, *arguments: Any, guess: int) -> npt.NDArray[np.int32]:
    """Returns the token ids that the library writes into an array."""
    array, n = lib.fill(
        function,
        *arguments,
        make=lambda size: np.empty(size, dtype=np.int32),
        as_pointer=lambda a: a.ctypes.data_as(lib.Tokens),
        guess=guess,
    )
    ids: npt.NDArray[np.int32] = array[:n]
    return ids


def _bytes(function: str, *arguments: Any, guess: int) -> bytes:
    array, n = lib.fill(function, *arguments, make=ctypes.create_string_buffer, as_pointer=lambda a: a, guess=guess)
    return bytes(array.raw[:n])
