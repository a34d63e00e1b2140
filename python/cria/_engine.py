"""Engines: threads and memory for many answers and sequences."""

from __future__ import annotations

import ctypes
from typing import Any, Iterable, List, Literal, Mapping, NamedTuple, Optional, Sequence as Many, Tuple, Union, cast, overload

import numpy as np
import numpy.typing as npt

from . import _foreign, _library as lib
from ._answer import Answer, Stream, interruptible
from ._file import ModelFile, int_array
from ._options import Messages, Sampler, TokenIds, constraint, message_array, speculation, token_array, variables_text

Prompt = Union[str, TokenIds]
_POOLINGS = {"mean": 0, "last": 1, None: 2, "cls": 3, "none": 4, "rank": 5}
_SCORE = np.dtype([("logprob", np.float64), ("likeliest", np.int32), ("reserved", np.int32)])  # cria_score


class Scores(NamedTuple):
    """Scores of the tokens of a text."""

    logprobs: npt.NDArray[np.float64]  #: natural logarithms of probabilities
    likeliest: npt.NDArray[np.int32]  #: the most likely token at each place


class Perplexity(NamedTuple):
    value: float
    standard_error: float
    tokens: int  #: number of scored tokens
    windows: int


class Sequence(lib.Owner):
    """Tokens at positions 0, 1, 2 … in the KV cache of an engine."""

    def __init__(self, engine: Engine, handle: lib.Handle) -> None:
        super().__init__("sequence", handle)
        self.engine = engine

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        return int_array("sequence_tokens", self._handle, guess=self.engine.n_ctx)

    def __len__(self) -> int:
        return len(self.tokens)

    def fork(self) -> Sequence:
        """Returns a sequence with the same tokens; they share memory until one grows."""
        return Sequence(self.engine, lib.created("sequence_fork", self._handle))

    def truncate(self, n: int) -> int:
        """Removes the tokens after the first n; returns how many are left."""
        left = ctypes.c_size_t()
        lib.call("sequence_truncate", self._handle, lib.whole("n", n, ctypes.c_size_t), ctypes.byref(left))
        return left.value

    def reuse(self, tokens: TokenIds) -> int:
        """Takes the longest cached prefix of these tokens; returns its length."""
        _array, pointer, n = token_array(tokens)
        left = ctypes.c_size_t()
        lib.call("sequence_reuse", self._handle, pointer, n, ctypes.byref(left))
        return left.value


class Engine(lib.Owner):
    """Generates answers together, in shared passes over the weights: `sequences` at a time, the others wait.
    Safe for any number of threads."""

    def __init__(
        self,
        model: ModelFile,
        *,
        n_ctx: int = 0,
        n_batch: int = 0,
        threads: int = 0,
        threads_prefill: int = 0,
        sequences: int = 1,
        positions: int = 0,
        kv_type: str = "f16",
        prefix_cache: bool = True,
        draft: Optional[ModelFile] = None,
    ) -> None:
        """n_ctx: context per sequence; 0: the training context, up to 4096. positions: of all sequences;
        0: n_ctx of each."""
        options = lib.EngineOptions(
            n_ctx=n_ctx,
            n_batch=n_batch,
            threads=threads,
            threads_prefill=threads_prefill,
            sequences=sequences,
            positions=positions,
            kv_type=lib.c_string(kv_type),
            no_prefix_cache=0 if prefix_cache else 1,
        )
        if draft is not None:
            options.draft = draft._handle
        super().__init__("engine", lib.created("engine_create", model._handle, ctypes.byref(options)))
        self.model = model
        lib.call("engine_get_options", self._handle, ctypes.byref(options))
        self.n_ctx: int = options.n_ctx
        self.threads: int = options.threads
        self.sequences: int = options.sequences

    def __repr__(self) -> str:
        return f"<cria.Engine of {self.model.path}, {self.n_ctx} positions, {self.sequences} at once, threads: {self.threads}>"

    def stream(
        self,
        *,
        messages: Optional[Messages] = None,
        prompt: Optional[Prompt] = None,
        variables: Optional[Mapping[str, Any]] = None,
        tools: Optional[Many[Mapping[str, Any]]] = None,
        max_tokens: Optional[int] = 0,
        stop: Union[str, Iterable[str], None] = (),
        schema: Any = None,
        grammar: Optional[str] = None,
        regex: Optional[str] = None,
        ignore_eos: bool = False,
        speculate: Union[bool, str] = "auto",
        logprobs: Optional[int] = None,
        scope: int = 0,
        **sampling: Any,
    ) -> Stream:
        """Starts an answer to a conversation (messages), or continues a text or tokens (prompt).

        max_tokens: 0, -1 or None: no limit. stop: stop strings. schema, grammar, regex: constraints (a
        schema as a dict, JSON or a pydantic class). speculate: "auto", "off", "lookup" (n-gram lookup)
        or "mtp" (the model's own prediction layers); never changes an answer. logprobs: also return
        log-probabilities, and this many of the most likely tokens. sampling: seed, temperature, top_k,
        top_p, min_p and the other names of cria_sampler_set() in cria.h; logit_bias as {token: bias}."""
        _foreign.reject_arguments(sampling)
        stops = [stop] if isinstance(stop, str) else list(stop or ())
        request = lib.Request(
            max_tokens=0 if max_tokens is None or max_tokens == -1 else max_tokens,
            stop=lib.texts(stops),
            n_stop=len(stops),
            ignore_eos=int(ignore_eos),
            speculation=speculation(speculate),
            logprobs=int(logprobs is not None and logprobs is not False),
            top_logprobs=logprobs or 0,
            scope=scope,
        )
        if messages is not None:
            request.messages, request.n_messages = message_array(messages)
            request.variables = variables_text(variables, tools)
        elif variables is not None or tools is not None:
            raise ValueError("variables and tools go with messages")
        if isinstance(prompt, str):
            text = prompt.encode()
            request.text, request.text_size = text, len(text)
        elif isinstance(prompt, (list, tuple)) and prompt and all(isinstance(one, str) for one in prompt):
            raise TypeError(f"prompt: expected a text or the ids of its tokens; batch() answers several, got {prompt!r}")
        elif prompt is not None:
            array, request.tokens, request.n_tokens = token_array(prompt)
        form = constraint(schema, grammar, regex)
        if form is not None:
            request.constraint = form._handle
        with Sampler(self.model._handle, sampling) as sampler:
            request.sampler = sampler._handle
            return Stream(self, request)

    @overload
    def chat(self, messages: Messages, *, stream: Literal[False] = False, **options: Any) -> Answer: ...
    @overload
    def chat(self, messages: Messages, *, stream: Literal[True], **options: Any) -> Stream: ...
    def chat(self, messages: Messages, *, stream: bool = False, **options: Any) -> Union[Answer, Stream]:
        """Answers a conversation: [{"role": …, "content": …}, …], or the user's text. stream: returns an iterator of
        its text. options: as in stream()."""
        return self.answer(stream, messages=messages, **options)

    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[False] = False, **options: Any) -> Answer: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], **options: Any) -> Stream: ...
    def generate(self, prompt: Prompt, *, stream: bool = False, **options: Any) -> Union[Answer, Stream]:
        """Continues a text or tokens. options: as in stream()."""
        return self.answer(stream, prompt=prompt, **options)

    def answer(self, streamed: bool, **options: Any) -> Union[Answer, Stream]:
        """Implements chat() and generate(). options: as in stream()."""
        begun = self.stream(**options)
        if streamed:
            return begun
        with begun:
            return begun.result()

    def batch(self, requests: Iterable[Union[Messages, Mapping[str, Any]]], **options: Any) -> List[Answer]:
        """Generates many answers, in the order of the requests: conversations, or dicts of arguments of stream(),
        which override the options here. Each text is the same as alone."""
        if isinstance(requests, (str, Mapping)):
            raise TypeError(f"requests: expected a list of them, got {requests!r}")
        streams: List[Stream] = []
        try:
            for request in requests:
                own = dict(request) if isinstance(request, Mapping) else {"messages": request}
                streams.append(self.stream(**{**options, **own}))
            return [stream.result() for stream in streams]
        finally:
            for stream in streams:
                stream.close()

    def logits(self, tokens: TokenIds, first: int = 0) -> npt.NDArray[np.float32]:
        """Returns the logits after each of tokens[first:]: [len(tokens) - first, n_vocab]."""
        first = lib.whole("first", first, ctypes.c_size_t)
        _array, pointer, n = token_array(tokens)
        out = np.empty((max(0, n - first), self.model.n_vocab), dtype=np.float32)
        self._compute("logits", self._handle, pointer, n, first, *_room(out))
        return out

    def embed(
        self, text: Union[Prompt, List[str]], pooling: Optional[str] = None
    ) -> Union[npt.NDArray[np.float32], List[npt.NDArray[np.float32]]]:
        """Returns a unit vector, [n_embd], of a text or its tokens; of a list of texts [len(text), n_embd].
        pooling: "mean", "cls" (the first token), "last", or "none": a vector for each token, [n_tokens, n_embd], and of
        a list of texts a list of these. None: as the file says."""
        if pooling not in _POOLINGS or pooling == "rank":
            raise ValueError(f'pooling: expected "mean", "cls", "last", "none" or None, got {pooling!r}')
        many = isinstance(text, list) and all(isinstance(one, str) for one in text)
        texts = cast(List[Prompt], text if many else [text])
        rows = [self._vectors(one, pooling) for one in texts]
        if not many:
            return rows[0]
        return rows if pooling == "none" else np.stack(rows) if rows else np.empty((0, self.model.n_embd), np.float32)

    def _vectors(self, text: Prompt, pooling: Optional[str]) -> npt.NDArray[np.float32]:
        _array, pointer, n = token_array(self.model.tokenize(text) if isinstance(text, str) else text)
        arguments = (self._handle, pointer, n, _POOLINGS[pooling])

        def compute() -> Tuple[npt.NDArray[np.float32], int]:
            array, size = lib.fill(
                "embed",
                *arguments,
                make=lambda floats: np.empty(floats, dtype=np.float32),
                as_pointer=lambda array: array.ctypes.data_as(lib.Floats),
                guess=self.model.n_embd * (n if pooling == "none" else 1),
            )
            return array, size

        out, size = interruptible(compute, self.cancel)
        return out[:size].reshape(n, -1) if pooling == "none" else out[:size]

    def rerank(self, query: str, documents: Many[str]) -> npt.NDArray[np.float32]:
        """Returns how well each document answers the query, from 0 to 1: [len(documents)]. The model must have a
        classifier."""
        asked, texts = query.encode(), [document.encode() for document in documents]
        n = len(texts)
        pointers, sizes = (ctypes.c_char_p * max(1, n))(*texts), (ctypes.c_size_t * max(1, n))(*map(len, texts))
        out = np.empty(n, dtype=np.float32)
        scores = out.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        self._compute("rerank", self._handle, asked, len(asked), pointers, sizes, n, scores, kept=(texts, out))
        return out

    def score(self, texts: Many[Tuple[TokenIds, int]], scope: int = 0) -> List[Scores]:
        """Scores tokens of texts, each given those before it: (tokens, first scored token, at least 1). Uses all
        free sequences of the engine; common prefixes are evaluated once."""
        scope = lib.whole("scope", scope, ctypes.c_uint64)
        arrays = [token_array(tokens) for tokens, _ in texts]
        c_texts = (lib.Scored * max(1, len(texts)))()
        for to, (_, first), (_array, pointer, n) in zip(c_texts, texts, arrays):
            to.tokens, to.n_tokens, to.first = pointer, n, lib.whole("first", first, ctypes.c_size_t)
        ends = np.cumsum([max(0, t.n_tokens - t.first) for t in c_texts])
        out = np.empty(ends[-1], dtype=_SCORE)
        room = _room(out, ctypes.c_void_p)
        self._compute("score_tokens", self._handle, c_texts, len(texts), scope, *room, kept=arrays)
        return [Scores(part["logprob"], part["likeliest"]) for part in np.split(out, ends[:-1])][: len(texts)]

    def perplexity(self, text: Union[str, bytes], *, window: int = 512, stride: int = 0, max_windows: int = 0) -> Perplexity:
        """Measures perplexity as `cria perplexity`: over adjacent windows, whose second halves are scored, or windows
        that start every `stride` tokens. max_windows: 0: all."""
        data = text.encode() if isinstance(text, str) else text
        options = lib.PerplexityOptions(window=window, stride=stride, max_windows=max_windows)
        result = lib.PerplexityResult()
        self._compute("perplexity", self._handle, data, len(data), ctypes.byref(options), ctypes.byref(result))
        return Perplexity(result.perplexity, result.standard_error, result.tokens, result.windows)

    def sequence(self, scope: int = 0) -> Sequence:
        """Returns a new, empty sequence. scope: sequences share cached prefixes within a scope only."""
        return Sequence(self, lib.created("sequence_create", self._handle, lib.whole("scope", scope, ctypes.c_uint64)))

    def forward(self, slices: Many[Tuple[Sequence, TokenIds, int]]) -> npt.NDArray[np.float32]:
        """Evaluates tokens of several sequences together and appends them: (sequence, tokens, first token with requested
        logits). Returns the requested logits in that order: [requested, n_vocab]."""
        arrays = [token_array(tokens) for _, tokens, _ in slices]
        c_slices = (lib.Slice * max(1, len(slices)))()
        for to, (sequence, _, first), (_array, pointer, n) in zip(c_slices, slices, arrays):
            to.sequence, to.tokens, to.n_tokens = sequence._handle, pointer, n
            to.first_wanted = lib.whole("first", first, ctypes.c_size_t)
        wanted = sum(max(0, s.n_tokens - s.first_wanted) for s in c_slices)
        out = np.empty((wanted, self.model.n_vocab), dtype=np.float32)
        self._compute("forward", c_slices, len(slices), *_room(out), kept=arrays)
        return out

    def cancel(self) -> None:
        """Ends all work of the engine, from any thread."""
        lib.call("engine_cancel", self._handle)

    # kept: targets of pointers in structs; after a second Ctrl-C the thread may outlive its caller.
    def _compute(self, function: str, *arguments: Any, kept: Any = None) -> None:
        interruptible(lambda: (lib.call(function, *arguments), kept), self.cancel)


def _room(array: npt.NDArray[Any], pointer: Any = lib.Floats) -> Tuple[Any, int, Any]:
    """Arguments for an array that the library fills: a pointer that keeps it alive, its size, and a count."""
    return array.ctypes.data_as(pointer), array.size, ctypes.byref(ctypes.c_size_t())
