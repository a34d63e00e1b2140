"""How an answer is asked for: conversations, samplers, constraints."""

from __future__ import annotations

import ctypes
import functools
import json
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _library as lib

_SPECULATIONS = {"auto": 0, True: 0, "off": 1, False: 1, "lookup": 2, "mtp": 3}
Messages = Union[str, Sequence[Mapping[str, Any]]]
TokenIds = Union[Sequence[int], npt.NDArray[Any]]


def token_array(tokens: TokenIds) -> Tuple[npt.NDArray[np.int32], Any, int]:
    """The ids as they are where they are int32, and where they begin."""
    given = np.asarray(tokens)
    if given.ndim != 1:
        raise ValueError(f"tokens: expected a list of ids, got {tokens!r}")
    array = np.ascontiguousarray(given, dtype=np.int32) if given.size == 0 or given.dtype.kind in "iu" else None
    if array is None or (array.dtype != given.dtype and not np.array_equal(array, given)):
        raise ValueError(f"tokens: expected ids, which are whole numbers of 32 bits, got {tokens!r}")
    return array, array.ctypes.data_as(lib.Tokens), len(array)


def message_array(messages: Messages) -> Tuple[Any, int]:
    """A conversation; a text is what the user says."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if isinstance(messages, Mapping) or not isinstance(messages, Sequence):
        raise TypeError(f"messages: expected a text or a list of messages, got {messages!r}")
    out = (lib.Message * max(1, len(messages)))()
    for to, message in zip(out, messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ValueError(f"messages: expected each to have a role and a content, got {message!r}")
        to.role = lib.c_string(message["role"])
        content = message.get("content")
        if set(message) <= {"role", "content"} and isinstance(content, str) and "\0" not in content:
            to.content = lib.c_string(content)
        else:
            to.json = json.dumps(dict(message)).encode()
    return out, len(messages)


def variables_text(variables: Optional[Mapping[str, Any]], tools: Optional[Sequence[Mapping[str, Any]]]) -> Optional[bytes]:
    """What else a template may ask for, as JSON."""
    all_of_them = dict(variables or {})
    if tools is not None:
        all_of_them["tools"] = list(tools)
    return json.dumps(all_of_them).encode() if all_of_them else None


def speculation(way: Union[bool, str]) -> int:
    if way not in _SPECULATIONS:
        raise ValueError(f'speculate: expected "auto", "off", "lookup" or "mtp", got {way!r}')
    return _SPECULATIONS[way]


class Sampler(lib.Owner):
    """How tokens are sampled: the names of cria_sampler_set() in cria.h, seed, samplers (or steps), logit_bias,
    and dry_sequence_breakers (or dry_breakers). The defaults are those of `cria run`."""

    def __init__(self, model: lib.Handle, options: Mapping[str, Any]) -> None:
        super().__init__("sampler", lib.created("sampler_create", model))
        for name, value in options.items():
            self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        if value is None:
            return
        if name == "seed":
            lib.call("sampler_set_seed", self._handle, lib.whole(name, value, ctypes.c_uint64))
        elif name in ("samplers", "steps"):
            lib.call("sampler_set_steps", self._handle, lib.c_string(value))
        elif name == "logit_bias":
            for token, bias in value.items():
                lib.call("sampler_set_bias", self._handle, lib.whole(name, token, ctypes.c_int32), bias)
        elif name in ("dry_sequence_breakers", "dry_breakers"):
            lib.call("sampler_set_dry_breakers", self._handle, lib.texts(value), len(value))
        else:
            if not isinstance(value, (int, float, np.number)):
                raise TypeError(f"{name}: expected a number, got {value!r}")
            lib.call("sampler_set", self._handle, lib.c_string(name), value)


class Constraint(lib.Owner):
    """What an answer's text has to be; for any model. Made once, it may be used by many answers."""

    def __init__(self, form: str, text: str) -> None:
        """form: "json_schema", "grammar" (GBNF) or "regex" (ECMA 262)."""
        if form not in ("json_schema", "grammar", "regex"):
            raise ValueError(f"no such form of constraint: {form}")
        super().__init__("constraint", lib.created("constraint_" + form, lib.c_string(text)))

    def accepts(self, text: Union[str, bytes]) -> bool:
        """Whether a text is whole."""
        return self._check(text)[0]

    def begins(self, text: Union[str, bytes]) -> bool:
        """Whether one that is whole begins with it."""
        return self._check(text)[1]

    def _check(self, text: Union[str, bytes]) -> Tuple[bool, bool]:
        data = text.encode() if isinstance(text, str) else text
        accepts, begins = ctypes.c_int32(), ctypes.c_int32()
        lib.call("constraint_check", self._handle, data, len(data), ctypes.byref(accepts), ctypes.byref(begins))
        return bool(accepts.value), bool(begins.value)


_known = functools.lru_cache(maxsize=64)(Constraint)  # what tokens may follow is remembered with the object


def _schema_text(schema: Any) -> str:
    """JSON of a dict, of a class of pydantic's (of version 2 or 1), or of its TypeAdapter."""
    for method in ("model_json_schema", "json_schema", "schema"):
        if callable(getattr(schema, method, None)):
            schema = getattr(schema, method)()
            break
    return schema if isinstance(schema, str) else json.dumps(schema)


def constraint(schema: Any, grammar: Optional[str], regex: Optional[str]) -> Optional[Constraint]:
    """schema: a dict, its JSON text, a class of pydantic's, or a Constraint of any form."""
    if sum(given is not None for given in (schema, grammar, regex)) > 1:
        raise ValueError("expected one of schema, grammar and regex")
    if grammar is not None:
        return _known("grammar", grammar)
    if regex is not None:
        return _known("regex", regex)
    if schema is None or isinstance(schema, Constraint):
        return schema
    return _known("json_schema", _schema_text(schema))
