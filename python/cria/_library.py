"""libcria.so for ctypes: structs, functions, and errors as exceptions. See <cria/cria.h>.

While a function computes, other threads of Python run: ctypes releases the interpreter's lock."""

from __future__ import annotations

import ctypes
import operator
import os
import pathlib
import re
import weakref
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from typing import Any, Callable, Dict, Optional, TypeVar

STATUSES = {
    -1: "data",
    -2: "argument",
    -3: "handle",
    -4: "room",
    -5: "memory",
    -6: "context",
    -7: "constraint",
    -8: "cancelled",
    -9: "internal",
}
OK, END, AGAIN, ERROR_HANDLE, ERROR_ROOM = 0, 1, 2, -3, -4


class Error(Exception):
    """Any error of the library. Its text is "FILE: what is wrong: expected X, got Y (WHERE)", without the parts that do
    not apply."""

    kind: str  #: "data" (an invalid file or value), "argument", "handle" (closed), "memory", "context" (the
    #: conversation or prompt is too long), "constraint", "cancelled" or "internal"
    file: str  #: the file at fault, or ""
    message: str  #: what is wrong
    where: str  #: "at byte 12", "key general.alignment", "tensor blk.0.attn_q.weight" or ""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text, kind)
        self.kind = kind
        end = _WHERE.search(text)
        self.where = end.group(1) if end else ""
        self.message = text[: end.start()] if end else text
        head, colon, rest = self.message.partition(": ")
        is_file = bool(colon) and (head.endswith(".gguf") or os.path.exists(head))
        self.file = head if is_file else ""
        if is_file:
            self.message = rest

    def __str__(self) -> str:
        return str(self.args[0])


_WHERE = re.compile(r" \(((?:at byte|key|tensor) .*)\)$")


class Handle(Structure):
    _fields_ = [("id", c_uint64)]


_INTEGERS = (c_int32, c_uint32, c_int64, c_uint64)


def whole(name: str, value: Any, kind: Any) -> int:
    """Checks that a number has at most this many bits; ctypes would truncate it."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {value!r}") from None
    cut: int = kind(number).value
    if cut != number:
        bits, signed = 8 * ctypes.sizeof(kind), kind(-1).value < 0
        least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        raise ValueError(f"{name}: expected {least} to {most}, got {number}")
    return number


class _Sized(Structure):
    """A struct that begins with its size, which the constructor sets."""

    def __init__(self, **values: Any) -> None:
        for name, kind, *_ in self._fields_:
            if kind in _INTEGERS and name in values:
                whole(name, values[name], kind)
        super().__init__(size=ctypes.sizeof(self), **values)


Floats = POINTER(c_float)
Tokens = POINTER(c_int32)
Texts = POINTER(c_char_p)


class ModelOptions(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("no_mmap", c_int32),
        ("mlock", c_int32),
        ("loras", Texts),
        ("lora_scales", Floats),
        ("n_loras", c_size_t),
    ]


class ModelInfo(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("path", c_char_p),
        ("name", c_char_p),
        ("n_vocab", c_uint32),
        ("n_ctx", c_uint32),
        ("n_embd", c_uint32),
        ("has_chat_template", c_int32),
        ("bos", c_int32),
        ("eos", c_int32),
    ]


class Message(Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p), ("json", c_char_p)]


class EngineOptions(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("n_ctx", c_uint32),
        ("n_batch", c_uint32),
        ("threads", c_uint32),
        ("threads_prefill", c_uint32),
        ("sequences", c_uint32),
        ("no_prefix_cache", c_int32),
        ("positions", c_uint64),
        ("kv_type", c_char_p),
        ("draft", Handle),
    ]


class Request(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("messages", POINTER(Message)),
        ("n_messages", c_size_t),
        ("variables", c_char_p),
        ("text", c_char_p),
        ("text_size", c_size_t),
        ("tokens", Tokens),
        ("n_tokens", c_size_t),
        ("sampler", Handle),
        ("constraint", Handle),
        ("max_tokens", c_int64),
        ("stop", Texts),
        ("n_stop", c_size_t),
        ("ignore_eos", c_int32),
        ("speculation", c_int32),
        ("logprobs", c_int32),
        ("top_logprobs", c_uint32),
        ("scope", c_uint64),
    ]


class Piece(_Sized):
    _fields_ = [("size", c_size_t), ("part", c_int32), ("text", ctypes.c_void_p), ("text_size", c_size_t)]


class TokenLogprob(Structure):
    _fields_ = [("token", c_int32), ("logprob", c_float)]


class ToolCall(Structure):
    _fields_ = [("id", c_char_p), ("name", c_char_p), ("arguments", c_char_p)]


class Result(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("stop_reason", c_int32),
        ("text", ctypes.c_void_p),
        ("text_size", c_size_t),
        ("thinking", ctypes.c_void_p),
        ("thinking_size", c_size_t),
        ("stop", c_char_p),
        ("tokens", Tokens),
        ("n_tokens", c_size_t),
        ("tool_calls", POINTER(ToolCall)),
        ("n_tool_calls", c_size_t),
        ("logprobs", POINTER(TokenLogprob)),
        ("top_logprobs", POINTER(TokenLogprob)),
        ("n_logprobs", c_size_t),
        ("n_top", c_size_t),
        ("prompt_tokens", c_size_t),
        ("cached_tokens", c_size_t),
        ("prompt_seconds", c_double),
        ("decode_seconds", c_double),
        ("drafted_tokens", c_size_t),
        ("kept_tokens", c_size_t),
    ]


class Scored(Structure):
    _fields_ = [("tokens", Tokens), ("n_tokens", c_size_t), ("first", c_size_t)]


class PerplexityOptions(_Sized):
    _fields_ = [("size", c_size_t), ("window", c_uint32), ("stride", c_uint32), ("max_windows", c_uint64)]


class PerplexityResult(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("perplexity", c_double),
        ("standard_error", c_double),
        ("tokens", c_uint64),
        ("windows", c_uint64),
    ]


class Slice(Structure):
    _fields_ = [("sequence", Handle), ("tokens", Tokens), ("n_tokens", c_size_t), ("first_wanted", c_size_t)]


class DTypeInfo(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("id", c_uint32),
        ("block_values", c_uint32),
        ("block_bytes", c_uint32),
        ("header_bytes", c_uint32),
    ]


class GGUFOptions(_Sized):
    _fields_ = [("size", c_size_t), ("no_mmap", c_int32), ("metadata_only", c_int32)]


class GGUFInfo(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("version", c_uint32),
        ("n_files", c_uint32),
        ("alignment", c_uint64),
        ("file_bytes", c_uint64),
        ("n_fields", c_size_t),
        ("n_tensors", c_size_t),
        ("n_warnings", c_size_t),
    ]


class GGUFField(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("key", ctypes.c_void_p),
        ("key_size", c_size_t),
        ("type", c_int32),
        ("element", c_int32),
        ("count", c_uint64),
        ("data", ctypes.c_void_p),
        ("bytes", c_size_t),
    ]


class GGUFTensor(_Sized):
    _fields_ = [
        ("size", c_size_t),
        ("name", ctypes.c_void_p),
        ("name_size", c_size_t),
        ("dtype", c_char_p),
        ("n_dims", c_uint32),
        ("file", c_uint32),
        ("shape", c_uint64 * 4),
        ("offset", c_uint64),
        ("data", ctypes.c_void_p),
        ("bytes", c_size_t),
    ]


_Count = POINTER(c_size_t)
_FUNCTIONS = {
    "dtype_find": [c_char_p, c_uint32, POINTER(DTypeInfo)],
    "dequantize": [c_char_p, ctypes.c_void_p, c_size_t, c_size_t, c_uint32, Floats, c_size_t, _Count],
    "quantize": [c_char_p, Floats, c_size_t, c_size_t, Floats, c_uint32, ctypes.c_void_p, c_size_t, _Count],
    "gguf_open": [c_char_p, POINTER(GGUFOptions), POINTER(Handle)],
    "gguf_free": [Handle],
    "gguf_get_info": [Handle, POINTER(GGUFInfo)],
    "gguf_get_warning": [Handle, c_size_t, POINTER(c_char_p)],
    "gguf_get_field": [Handle, c_size_t, POINTER(GGUFField)],
    "gguf_get_tensor": [Handle, c_size_t, POINTER(GGUFTensor)],
    "gguf_writer_create": [c_char_p, c_uint64, POINTER(Handle)],
    "gguf_writer_free": [Handle],
    "gguf_writer_set": [Handle, c_char_p, c_int32, c_int32, c_uint64, c_char_p, c_size_t],
    "gguf_writer_copy_field": [Handle, Handle, c_size_t],
    "gguf_writer_declare": [Handle, c_char_p, c_char_p, POINTER(c_uint64), c_size_t],
    "gguf_writer_write": [Handle, ctypes.c_void_p, c_size_t],
    "gguf_writer_finish": [Handle],
    "model_load": [c_char_p, POINTER(ModelOptions), POINTER(Handle)],
    "model_free": [Handle],
    "model_get_info": [Handle, POINTER(ModelInfo)],
    "tokenize": [Handle, c_char_p, c_size_t, c_uint32, Tokens, c_size_t, _Count],
    "detokenize": [Handle, Tokens, c_size_t, c_uint32, c_char_p, c_size_t, _Count],
    "apply_template": [Handle, POINTER(Message), c_size_t, c_char_p, c_char_p, c_size_t, _Count],
    "template_tokens": [Handle, POINTER(Message), c_size_t, c_char_p, Tokens, c_size_t, _Count],
    "sampler_create": [Handle, POINTER(Handle)],
    "sampler_free": [Handle],
    "sampler_set": [Handle, c_char_p, c_double],
    "sampler_set_seed": [Handle, c_uint64],
    "sampler_set_steps": [Handle, c_char_p],
    "sampler_set_bias": [Handle, c_int32, c_float],
    "sampler_set_dry_breakers": [Handle, Texts, c_size_t],
    "constraint_json_schema": [c_char_p, POINTER(Handle)],
    "constraint_grammar": [c_char_p, POINTER(Handle)],
    "constraint_regex": [c_char_p, POINTER(Handle)],
    "constraint_check": [Handle, c_char_p, c_size_t, POINTER(c_int32), POINTER(c_int32)],
    "constraint_free": [Handle],
    "engine_create": [Handle, POINTER(EngineOptions), POINTER(Handle)],
    "engine_free": [Handle],
    "engine_get_options": [Handle, POINTER(EngineOptions)],
    "engine_cancel": [Handle],
    "answer_begin": [Handle, POINTER(Request), POINTER(Handle)],
    "answer_free": [Handle],
    "answer_next": [Handle, POINTER(Piece)],
    "answer_cancel": [Handle],
    "answer_result": [Handle, POINTER(Result)],
    "logits": [Handle, Tokens, c_size_t, c_size_t, Floats, c_size_t, _Count],
    "embed": [Handle, Tokens, c_size_t, c_int32, Floats, c_size_t, _Count],
    "rerank": [Handle, c_char_p, c_size_t, POINTER(c_char_p), POINTER(c_size_t), c_size_t, Floats],
    "score_tokens": [Handle, POINTER(Scored), c_size_t, c_uint64, ctypes.c_void_p, c_size_t, _Count],
    "perplexity": [Handle, c_char_p, c_size_t, POINTER(PerplexityOptions), POINTER(PerplexityResult)],
    "sequence_create": [Handle, c_uint64, POINTER(Handle)],
    "sequence_free": [Handle],
    "sequence_fork": [Handle, POINTER(Handle)],
    "sequence_truncate": [Handle, c_size_t, _Count],
    "sequence_reuse": [Handle, Tokens, c_size_t, _Count],
    "sequence_tokens": [Handle, Tokens, c_size_t, _Count],
    "forward": [POINTER(Slice), c_size_t, Floats, c_size_t, _Count],
}


def _open() -> ctypes.CDLL:
    beside = pathlib.Path(__file__).with_name("libcria.so.0")
    name = os.environ.get("CRIA_LIBRARY") or (str(beside) if beside.exists() else "libcria.so.0")
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        how = "install libcria (after `cmake --install` run ldconfig), or name its libcria.so in CRIA_LIBRARY"
        raise ImportError(f"{error}; {how}") from error
    for function, arguments in _FUNCTIONS.items():
        f = getattr(library, "cria_" + function)
        f.argtypes = arguments
        f.restype = c_int32
    for function in ("last_error", "version", "isa"):
        getattr(library, "cria_" + function).restype = c_char_p
    return library


_library = _open()
_functions: Dict[str, Any] = {name: getattr(_library, "cria_" + name) for name in _FUNCTIONS}
version: str = _library.cria_version().decode()


def isa() -> str:
    """Returns the instruction set that the kernels use on this machine."""
    return str(_library.cria_isa().decode())


def call(function: str, *arguments: Any) -> int:
    """Calls a function; returns its status, 0 or above, or raises Error."""
    status: int = _functions[function](*arguments)
    if status < 0:
        raise error_of(status)
    return status


def function(name: str) -> Any:
    """Returns a function for frequent calls; the caller checks its status (below 0: error)."""
    return _functions[name]


def error_of(status: int) -> Error:
    if _process.forked:
        return Error(_FORKED, "handle")
    return Error(_library.cria_last_error().decode(errors="replace"), STATUSES.get(status, "internal"))


def fill(function: str, *arguments: Any, make: Callable[[int], Any], as_pointer: Callable[[Any], Any], guess: int) -> Any:
    """Returns an array that a function fills, and the count."""
    count = c_size_t()
    array = make(guess)
    status = _functions[function](*arguments, as_pointer(array), guess, ctypes.byref(count))
    if status == ERROR_ROOM and count.value > guess:
        array = make(count.value)
        call(function, *arguments, as_pointer(array), count.value, ctypes.byref(count))
    elif status < 0:
        raise error_of(status)
    return array, count.value


_Self = TypeVar("_Self", bound="Owner")


class Owner:
    """Owns a handle: frees it on deletion or close()."""

    def __init__(self, kind: str, handle: Handle) -> None:
        self._handle = handle
        self._free = weakref.finalize(self, _free_handle, kind, handle)
        _process.owners.add(self)
        _process.has_engines = _process.has_engines or kind == "engine"

    def close(self) -> None:
        """Frees the handle; every later call is an Error."""
        self._free()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _free_handle(kind: str, handle: Handle) -> None:
    _functions[kind + "_free"](handle)


_FORKED = (
    "forked from a process that has had an engine, whose threads are not here: start processes by spawn "
    '(multiprocessing.set_start_method("spawn")), or before the first engine'
)


class _Process:
    """What a forked process must know of its parent."""

    has_engines = False  # or has had some: the library's threads stay
    forked = False  # from a process that has engines
    owners: weakref.WeakSet[Owner] = weakref.WeakSet()


_process = _Process()


def _refuse(*_: Any) -> int:
    return ERROR_HANDLE


# Freeing an engine would wait for a thread that does not exist in the child process.
def _after_fork() -> None:
    if not _process.has_engines:
        return
    _process.forked = True
    _functions.update(dict.fromkeys(_FUNCTIONS, _refuse))
    for owner in _process.owners:  # whose functions may be known elsewhere
        owner._handle.id = 0


os.register_at_fork(after_in_child=_after_fork)


def created(function: str, *arguments: Any) -> Handle:
    handle = Handle()
    call(function, *arguments, ctypes.byref(handle))
    return handle


def texts(values: Any) -> Any:
    """Returns an array of C strings, or None."""
    encoded = [value if isinstance(value, bytes) else c_string(value) for value in values]
    return (c_char_p * len(encoded))(*encoded) if encoded else None


def c_string(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else _whole(value.encode())


def c_path(value: Any) -> bytes:
    return _whole(os.fsencode(value))


def _whole(data: bytes) -> bytes:
    if b"\0" in data:
        raise ValueError("embedded null character")
    return data
