"""Memory of large arrays, which later arrays use again."""

from __future__ import annotations

import ctypes
import mmap
from typing import List, Tuple

import numpy as np
import numpy.typing as npt

_PAGE = 2 << 20  # bytes of a huge page
_KEPT = 512 << 20  # max bytes that wait for the next array
# Least recently used first. Any thread may drop an array at any time, so only atomic methods are called.
_free: List[mmap.mmap] = []


def _advise(memory: mmap.mmap, advice: int) -> None:
    try:
        memory.madvise(advice)
    except OSError:  # an unknown advice costs speed only
        pass


class _Lease:
    """The memory of an array: an earlier one's of this size, or new."""

    def __init__(self, size: int) -> None:
        for memory in list(_free):
            if len(memory) == size:
                try:
                    _free.remove(memory)
                except ValueError:  # another thread took it
                    continue
                self.memory = memory
                return
        self.memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        _advise(self.memory, mmap.MADV_HUGEPAGE)

    def __del__(self) -> None:
        _advise(self.memory, mmap.MADV_FREE)  # the system may take the pages while they wait
        _free.append(self.memory)
        try:
            while sum(map(len, _free)) > _KEPT:
                _free.pop(0)
        except IndexError:  # another thread has emptied it
            pass


def empty(shape: Tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Returns an array as numpy.empty does.

    The system clears new memory, which takes longer than decoding a tensor. So dropped arrays leave their memory to
    arrays of the same size: up to 512 MiB, which the system takes back when it runs short."""
    n = 4 * int(np.prod(shape, dtype=object))
    if not _PAGE <= n <= _KEPT:
        return np.empty(shape, dtype=np.float32)
    lease = _Lease(-(-n // _PAGE) * _PAGE)
    memory = (ctypes.c_uint8 * n).from_buffer(lease.memory)
    memory._lease = lease  # type: ignore[attr-defined]
    return np.frombuffer(memoryview(memory), dtype=np.float32).reshape(shape)
