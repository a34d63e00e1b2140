"""Answers, complete or streaming."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import ctypes
import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Tuple, TypeVar

import numpy as np
import numpy.typing as npt

from . import _foreign, _library as lib

T = TypeVar("T")
_now, _string_at = time.perf_counter, ctypes.string_at
_NOTICED = 0.01  # seconds that somebody who presses Ctrl-C may wait for a piece without noticing
_STOP_REASONS = ("end", "stop", "length", "context", "cancelled")


@dataclasses.dataclass(frozen=True)
class ToolCall:
    id: str
    name: str
    arguments: str  #: JSON, as written by the model


@dataclasses.dataclass(frozen=True)
class Answer:
    text: str
    thinking: str  #: text of the thinking phase
    stop_reason: str  #: "end", "stop" (a stop string), "length", "context" (it is full) or "cancelled"
    stop: str  #: the stop string found
    tokens: npt.NDArray[np.int32]  #: tokens of thinking, answer and calls
    tool_calls: List[ToolCall]
    #: if requested, for each token: (token, log-probability, [(token, log-probability), …] of the top)
    logprobs: List[Tuple[int, float, List[Tuple[int, float]]]]
    prompt_tokens: int  #: prompt tokens evaluated
    cached_tokens: int  #: prompt tokens from the prefix cache
    prompt_seconds: float
    decode_seconds: float
    drafted_tokens: int  #: draft tokens evaluated
    kept_tokens: int  #: draft tokens accepted

    def __str__(self) -> str:
        return self.text

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            _foreign.reject_attribute("'Answer' object", name)

        def __getitem__(self, name: object) -> Any:
            _foreign.reject_item(name)


def interruptible(compute: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Runs compute(). In the main thread it uses another thread, so that Ctrl-C cancels immediately.
    Closed objects need no cancelling."""
    if threading.current_thread() is not threading.main_thread():
        return compute()
    done: List[T] = []
    failed: List[BaseException] = []
    first = threading.Lock()  # who takes it: the thread, which then computes, or who gives up before it has begun
    over = threading.Event()

    def run() -> None:
        if not first.acquire(blocking=False):
            return
        try:
            done.append(compute())
        except BaseException as error:  # for the main thread
            failed.append(error)
        finally:
            over.set()

    try:
        # Not threading.Thread: in some versions of Python join() returns early after a signal.
        _thread.start_new_thread(run, ())
        over.wait()
    except BaseException:
        if not first.acquire(blocking=False):
            while True:  # once more where it had not yet begun to compute
                with contextlib.suppress(lib.Error):
                    cancel()
                if over.wait(0.05):
                    break
        raise
    if failed:
        raise failed[0]
    return done[0]


def _text(address: Optional[int], size: int) -> str:
    return ctypes.string_at(address, size).decode(errors="replace") if address else ""


class Stream(lib.Owner):
    """The text of an answer, in pieces: an iterator, also asynchronous. These end the answer: closing it,
    leaving its `with` or `async with`, Ctrl-C, and cancelling a task that waits for it."""

    def __init__(self, engine: lib.Owner, request: lib.Request) -> None:
        super().__init__("answer", lib.created("answer_begin", engine._handle, ctypes.byref(request)))
        self._engine = engine  # its handle is not to be freed
        self._piece = lib.Piece()
        self._to_piece = ctypes.byref(self._piece)
        self._answer_next = lib.function("answer_next")
        self._seconds = 1.0  # that the last piece was computed for
        # Held from a call until its result, which belongs to the handle, has been read.
        self._reading = threading.Lock()
        self._closed = False

    def __iter__(self) -> Iterator[str]:
        # A small model needs a quarter of a millisecond per token. One generator frame with cached
        # look-ups costs a third of repeated calls of next().
        piece, to_piece, answer_next, handle = self._piece, self._to_piece, self._answer_next, self._handle
        reading = self._reading
        while True:
            if self._seconds > _NOTICED:
                text = self._next()
                if text is None:
                    return
                yield text
                continue
            try:
                start = _now()
                with reading:
                    status = answer_next(handle, to_piece)
                    data = _string_at(piece.text, piece.text_size) if status == 0 and piece.part == 0 else None
                self._seconds = _now() - start
            except KeyboardInterrupt:
                self._cancel_if_open()
                raise
            finally:
                if self._closed:
                    self._free_unread()
            if data is not None:
                yield data.decode(errors="replace")
            elif status == lib.END:
                return
            elif status < 0:
                raise lib.error_of(status)

    def __next__(self) -> str:
        piece = self._next()
        if piece is None:
            raise StopIteration
        return piece

    def _next(self) -> Optional[str]:
        try:
            # A thread per piece would cost more time than a small model needs.
            return interruptible(self._pull, self.cancel) if self._seconds > _NOTICED else self._pull()
        except KeyboardInterrupt:
            self._cancel_if_open()
            raise

    def _pull(self) -> Optional[str]:
        piece = self._piece
        start = _now()
        with self._read():
            while (status := self._answer_next(self._handle, self._to_piece)) != lib.END:
                if status < 0:
                    raise lib.error_of(status)
                if piece.part == 0:
                    self._seconds = _now() - start
                    return _string_at(piece.text, piece.text_size).decode(errors="replace")
        return None

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        piece = await self._in_thread(self._next)
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aresult(self) -> Answer:
        """result() for asynchronous tasks."""
        return await self._in_thread(self.result)

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    async def _in_thread(self, compute: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, compute)
        except asyncio.CancelledError:
            self._cancel_if_open()
            raise

    def cancel(self) -> None:
        """Ends the answer, from any thread; result() has the text so far."""
        lib.call("answer_cancel", self._handle)

    def close(self) -> None:
        """Ends the answer and frees it. A thread that waits for it gets the text so far."""
        self._closed = True
        self._cancel_if_open()
        self._free_unread()

    def _cancel_if_open(self) -> None:
        with contextlib.suppress(lib.Error):
            self.cancel()

    def result(self) -> Answer:
        """Waits for the complete answer."""
        return interruptible(self._result, self.cancel)

    def _result(self) -> Answer:
        result = lib.Result()
        with self._read():
            lib.call("answer_result", self._handle, ctypes.byref(result))
            return _answer(result)

    @contextlib.contextmanager
    def _read(self) -> Iterator[None]:
        try:
            with self._reading:
                yield
        finally:
            if self._closed:
                self._free_unread()

    # Never blocks: a reader sees `_closed` and calls this again. A signal handler may close the
    # stream that its own thread is reading.
    def _free_unread(self) -> None:
        if self._reading.acquire(blocking=False):
            try:
                super().close()
            finally:
                self._reading.release()


def _answer(r: lib.Result) -> Answer:
    def pair(of: Any) -> Tuple[int, float]:
        return of.token, of.logprob

    top = [[pair(r.top_logprobs[i * r.n_top + k]) for k in range(r.n_top)] for i in range(r.n_logprobs)]
    calls = [r.tool_calls[i] for i in range(r.n_tool_calls)]
    return Answer(
        text=_text(r.text, r.text_size),
        thinking=_text(r.thinking, r.thinking_size),
        stop_reason=_STOP_REASONS[r.stop_reason],
        stop=r.stop.decode(errors="replace"),
        # A copy, so that the array does not keep the engine alive.
        tokens=np.ctypeslib.as_array(r.tokens, (r.n_tokens,)).copy() if r.n_tokens else np.empty(0, np.int32),
        tool_calls=[ToolCall(*(part.decode(errors="replace") for part in (c.id, c.name, c.arguments))) for c in calls],
        logprobs=[(*pair(r.logprobs[i]), top[i]) for i in range(r.n_logprobs)],
        prompt_tokens=r.prompt_tokens,
        cached_tokens=r.cached_tokens,
        prompt_seconds=r.prompt_seconds,
        decode_seconds=r.decode_seconds,
        drafted_tokens=r.drafted_tokens,
        kept_tokens=r.kept_tokens,
    )
