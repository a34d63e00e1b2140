"""GGUF files: fields and tensors as numpy arrays, and files written from them."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._file import Path
from ._memory import empty

Bytes = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float32]

_STRING, _ARRAY, _BOOL = 8, 9, 7
_NAMES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64")
_DTYPES = ("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", "", "", "<u8", "<i8", "<f8")
_PLAIN = {"F32": np.float32, "F16": np.float16, "F64": np.float64, "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64}
_PLAIN_OF = {np.dtype(kind): name for name, kind in _PLAIN.items()}


class DType(NamedTuple):
    """A tensor type."""

    name: str  #: "Q4_K"
    id: int  #: its number in GGUF files
    block_values: int  #: rows are a multiple of this long
    block_bytes: int  #: bytes of a block
    header_bytes: int  #: bytes that a row begins with; usually 0

    def row_bytes(self, cols: int) -> int:
        """Returns the bytes of a row of this many values."""
        if cols % self.block_values:
            raise ValueError(f"{self.name}: expected rows of a multiple of {self.block_values} values, got {cols}")
        return self.header_bytes + cols // self.block_values * self.block_bytes


def dtype(name: Union[str, int]) -> DType:
    """Returns a tensor type by its name ("Q4_K", "q4_k") or its number in GGUF files."""
    found = lib.DTypeInfo()
    text = name if isinstance(name, str) else None
    number = 0 if isinstance(name, str) else lib.whole("dtype", name, ctypes.c_uint32)
    lib.call("dtype_find", lib.c_string(text), number, ctypes.byref(found))
    return DType(found.name.decode(), found.id, found.block_values, found.block_bytes, found.header_bytes)


def _floats(array: npt.ArrayLike, name: str) -> Values:
    values = np.asarray(array)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"{name}: expected numbers, got {values.dtype}")
    return np.ascontiguousarray(values, dtype=np.float32)


def _pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _rows(values: npt.NDArray[Any]) -> int:
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"expected an array with values, got shape {values.shape}")
    return int(values.shape[-1])


def quantize(array: npt.ArrayLike, dtype: str, importance: Optional[npt.ArrayLike] = None, *, threads: int = 0) -> Bytes:
    """Encodes an array, whose last axis is a row, as `cria quantize` does.

    importance: a weight for each column. Returns uint8 of shape [..., bytes of a row]; the bytes do not depend on the
    number of threads (0: physical cores)."""
    values = _floats(array, "array")
    cols = _rows(values)
    kind = _dtype(dtype)
    out: Bytes = np.empty(values.shape[:-1] + (kind.row_bytes(cols),), dtype=np.uint8)
    weights = None if importance is None else _floats(importance, "importance")
    if weights is not None and weights.shape != (cols,):
        raise ValueError(f"importance: expected shape ({cols},), got {weights.shape}")
    count = ctypes.c_size_t()
    lib.call(
        "quantize", lib.c_string(dtype), values.ctypes.data_as(lib.Floats), values.size, cols,
        None if weights is None else weights.ctypes.data_as(lib.Floats),
        lib.whole("threads", threads, ctypes.c_uint32), _pointer(out), out.size, ctypes.byref(count),
    )  # fmt: skip
    return out


def dequantize(data: npt.ArrayLike, dtype: str, shape: Tuple[int, ...], *, threads: int = 0) -> Values:
    """Decodes bytes of a tensor to float32 of this shape, whose last axis is a row."""
    raw = np.ascontiguousarray(np.asarray(data)).reshape(-1).view(np.uint8)
    out: Values = empty(shape)
    cols = _rows(out)
    expected = out.size // cols * _dtype(dtype).row_bytes(cols)
    if raw.size != expected:
        raise ValueError(f"data: expected {expected} bytes for {dtype} of shape {tuple(shape)}, got {raw.size}")
    count = ctypes.c_size_t()
    lib.call(
        "dequantize", lib.c_string(dtype), _pointer(raw), raw.size, cols,
        lib.whole("threads", threads, ctypes.c_uint32), out.ctypes.data_as(lib.Floats), out.size, ctypes.byref(count),
    )  # fmt: skip
    return out


_dtype = dtype  # parameters have this name, too


class _Mapped(lib.Owner):
    """An open file; views of its bytes keep it alive."""

    def view(self, address: Optional[int], size: int) -> Bytes:
        if not size or not address:
            return np.empty(0, dtype=np.uint8)
        memory = (ctypes.c_uint8 * size).from_address(address)
        memory._owner = self  # type: ignore[attr-defined]
        out: Bytes = np.frombuffer(memoryview(memory), dtype=np.uint8)
        out.flags.writeable = False
        return out


class Tensor:
    """A tensor of a file."""

    def __init__(self, mapped: _Mapped, number: int) -> None:
        found = lib.GGUFTensor()
        lib.call("gguf_get_tensor", mapped._handle, number, ctypes.byref(found))
        self._mapped, self._address, self._size = mapped, found.data, int(found.bytes)
        self.name: str = ctypes.string_at(found.name, found.name_size).decode(errors="surrogateescape")
        self.dtype: str = found.dtype.decode()
        #: as of a numpy array: the last axis is a row, whose values lie side by side
        self.shape: Tuple[int, ...] = tuple(found.shape[i] for i in reversed(range(found.n_dims)))
        self.offset: int = found.offset  #: of the data, in bytes from the start of its file
        self.file: int = found.file  #: index of the file that holds it

    def __repr__(self) -> str:
        return f"<Tensor {self.name}: {self.dtype} {list(self.shape)}>"

    @property
    def raw(self) -> Bytes:
        """The bytes where they lie in the file: a read-only view, [..., bytes of a row]."""
        if self._address is None and self._size:
            raise ValueError(f"tensor {self.name}: its data is missing")
        return self._mapped.view(self._address, self._size).reshape(self.shape[:-1] + (-1,))

    def dequantize(self, rows: Optional[slice] = None, *, threads: int = 0) -> Values:
        """Returns float32 values of this shape; rows: a slice of the first axis (of a matrix: its rows)."""
        raw, shape = self.raw, self.shape
        if rows is not None:
            if len(shape) < 2:
                raise ValueError(f"tensor {self.name}: one row has no rows to choose from")
            raw = raw[rows]
            shape = raw.shape[:1] + shape[1:]
        if not raw.size:
            return np.empty(shape, dtype=np.float32)
        return dequantize(raw, self.dtype, shape, threads=threads)


class Field(NamedTuple):
    """Where a field's value lies."""

    type: int
    element: int
    n: int
    data: Bytes


class _Fields(Mapping[str, Any]):
    """Values by key. Arrays are read when they are asked for: of numbers as numpy arrays, of strings as lists."""

    def __init__(self, mapped: _Mapped, n: int, length_bytes: int) -> None:
        self._length_bytes = length_bytes
        self._fields: Dict[str, Field] = {}
        for number in range(n):
            found = lib.GGUFField()
            lib.call("gguf_get_field", mapped._handle, number, ctypes.byref(found))
            key = ctypes.string_at(found.key, found.key_size).decode(errors="surrogateescape")
            data = mapped.view(found.data, found.bytes)
            self._fields[key] = Field(found.type, found.element, found.count, data)

    def __getitem__(self, key: str) -> Any:
        field = self._fields[key]
        if field.type == _STRING:
            return field.data.tobytes().decode(errors="surrogateescape")
        if field.type == _ARRAY:
            return self._array(field.element, field.n, field.data.data, 0)[0]
        return np.frombuffer(field.data, dtype=_DTYPES[field.type])[0].item()

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def type(self, key: str) -> str:
        """Returns the type of a value: "uint32", "string", "array[float32]"."""
        field = self._fields[key]
        return f"array[{_NAMES[field.element]}]" if field.type == _ARRAY else _NAMES[field.type]

    def _array(self, element: int, count: int, data: memoryview, at: int) -> Tuple[Any, int]:
        """An array that begins at a byte of the data, and the byte after it."""
        if element not in (_STRING, _ARRAY):
            numbers = np.frombuffer(data, dtype=_DTYPES[element], count=count, offset=at) if count else np.empty(0, dtype=_DTYPES[element])
            return numbers, at + numbers.nbytes
        length = struct.Struct("<Q" if self._length_bytes == 8 else "<I")
        items: List[Any] = []
        for _ in range(count):
            if element == _STRING:
                (size,) = length.unpack_from(data, at)
                at += length.size
                items.append(bytes(data[at : at + size]).decode(errors="surrogateescape"))
                at += size
            else:
                (inner,) = struct.unpack_from("<I", data, at)
                (size,) = length.unpack_from(data, at + 4)
                item, at = self._array(inner, size, data, at + 4 + length.size)
                items.append(item)
        return items, at


class Difference(NamedTuple):
    """What differs between two files; names in the order of the first, then of the second."""

    fields: List[str]  #: missing in one of them, or of another type or value
    tensors: List[str]  #: missing in one of them, or of another type, shape or data

    def __bool__(self) -> bool:
        return bool(self.fields or self.tensors)


class GGUFFile:
    """A GGUF file, mapped into memory; of a split one, all files.

    Arrays that come from it stay valid after close()."""

    def __init__(self, path: Path, *, mmap: bool = True, metadata_only: bool = False) -> None:
        options = lib.GGUFOptions(no_mmap=int(not mmap), metadata_only=int(metadata_only))
        self.path: str = os.fsdecode(path)
        self._mapped = _Mapped("gguf", lib.created("gguf_open", lib.c_path(path), ctypes.byref(options)))
        info = lib.GGUFInfo()
        lib.call("gguf_get_info", self._mapped._handle, ctypes.byref(info))
        self.version: int = info.version
        self.alignment: int = info.alignment
        self.n_files: int = info.n_files
        self.file_bytes: int = info.file_bytes
        self._n_warnings: int = info.n_warnings
        self.fields = _Fields(self._mapped, info.n_fields, 4 if info.version == 1 else 8)
        self.tensors: Dict[str, Tensor] = {}
        for number in range(info.n_tensors):
            tensor = Tensor(self._mapped, number)
            self.tensors[tensor.name] = tensor

    def check(self) -> List[str]:
        """Returns what is wrong but was tolerated, and tensors that hold NaN or infinity, one line each."""
        lines = []
        for number in range(self._n_warnings):
            text = ctypes.c_char_p()
            lib.call("gguf_get_warning", self._mapped._handle, number, ctypes.byref(text))
            lines.append((text.value or b"").decode(errors="replace"))
        for tensor in self.tensors.values():
            if tensor.dtype.startswith("I") and not tensor.dtype.startswith("IQ"):
                continue
            count = 0
            n = tensor.shape[0] if len(tensor.shape) > 1 else 1
            step = max(1, (1 << 22) // int(np.prod(tensor.shape[1:], dtype=np.int64))) if n > 1 else 1
            if tensor.dtype[-3:-1] == "_R":  # rows of interleaved types lie together in fours or eights
                step = max(8, step // 8 * 8)
            for first in range(0, n, step):
                part = slice(first, first + step) if len(tensor.shape) > 1 else None
                count += int(np.count_nonzero(~np.isfinite(tensor.dequantize(part))))
            if count:
                lines.append(f"tensor {tensor.name}: {count} values are NaN or infinite")
        return lines

    def diff(self, other: GGUFFile) -> Difference:
        """Compares fields and tensors with those of another file."""
        a, b = self.fields._fields, other.fields._fields
        keys = [key for key in dict.fromkeys([*a, *b]) if key not in a or key not in b or not _same_field(a[key], b[key])]
        names = []
        for name in dict.fromkeys([*self.tensors, *other.tensors]):
            one, two = self.tensors.get(name), other.tensors.get(name)
            if one is None or two is None or one.dtype != two.dtype or one.shape != two.shape:
                names.append(name)
            elif not np.array_equal(one.raw, two.raw):
                names.append(name)
        return Difference(keys, names)

    def close(self) -> None:
        """Closes the file as soon as no array needs it."""
        self.tensors = {}
        self.fields = _Fields(self._mapped, 0, 8)
        self._n_warnings = 0
        del self._mapped

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _same_field(a: Field, b: Field) -> bool:
    return a[:3] == b[:3] and np.array_equal(a.data, b.data)


class GGUFWriter(lib.Owner):
    """Writes a GGUF file: set fields and add tensors, then write(). Without it, the file at the path stays as it was."""

    def __init__(self, path: Path, *, alignment: int = 32) -> None:
        number = lib.whole("alignment", alignment, ctypes.c_uint64)
        super().__init__("gguf_writer", lib.created("gguf_writer_create", lib.c_path(path), number))
        self._data: List[Optional[npt.NDArray[Any]]] = []

    def set(self, key: str, value: Any, type: Optional[str] = None) -> None:
        """Sets a field. type: as fields.type() names it; None: string, bool, int32 (or int64, uint64 where that is too
        small), float32; arrays as their values, numpy arrays as they are."""
        number, element, count, data = _payload(key, value, type)
        lib.call("gguf_writer_set", self._handle, lib.c_string(key), number, element, count, data, len(data))

    def add_tensor(
        self,
        name: str,
        data: Optional[npt.NDArray[Any]],
        dtype: Optional[str] = None,
        shape: Optional[Tuple[int, ...]] = None,
        *,
        importance: Optional[npt.ArrayLike] = None,
    ) -> None:
        """Adds a tensor. Floats become `dtype` (None: as they are); with a shape, data are its bytes (uint8), or None if
        they will come by write_data()."""
        if shape is None:
            if data is None:
                raise ValueError(f"tensor {name}: without data its shape is needed")
            kind = dtype or _PLAIN_OF.get(data.dtype)
            if kind is None:
                raise TypeError(f"tensor {name}: no tensor type is {data.dtype}; say which")
            shape = data.shape
            if kind not in _PLAIN or data.dtype != _PLAIN[kind]:
                data = quantize(data, kind, importance)
        else:
            if dtype is None:
                raise ValueError(f"tensor {name}: bytes need a dtype")
            kind = dtype
        sizes = (ctypes.c_uint64 * len(shape))(*reversed(shape))
        if data is not None:
            expected = int(np.prod(shape[:-1], dtype=np.int64)) * _dtype(kind).row_bytes(shape[-1]) if shape else 0
            if data.nbytes != expected:
                raise ValueError(f"tensor {name}: expected {expected} bytes for {kind} of shape {shape}, got {data.nbytes}")
        lib.call("gguf_writer_declare", self._handle, lib.c_string(name), lib.c_string(kind), sizes, len(shape))
        self._data.append(data)

    def copy_fields(self, file: GGUFFile, *, without: Tuple[str, ...] = ()) -> None:
        """Sets the fields of a file, but for those that describe its layout (general.alignment, split.*)."""
        for number, key in enumerate(file.fields):
            if key not in without and key != "general.alignment" and not key.startswith("split."):
                lib.call("gguf_writer_copy_field", self._handle, file._mapped._handle, number)

    def copy_tensor(self, tensor: Tensor) -> None:
        """Adds a tensor of a file as it is."""
        self.add_tensor(tensor.name, tensor.raw, tensor.dtype, tensor.shape)

    def write_data(self, data: npt.NDArray[Any]) -> None:
        """Writes the next bytes of a tensor that was added without data, and the tensors before it."""
        while self._data and self._data[0] is not None:
            self._write(self._data.pop(0))
        self._write(data)

    def next_tensor(self) -> None:
        """Ends a tensor whose data came by write_data()."""
        if not self._data or self._data[0] is not None:
            raise ValueError("no tensor without data is being written")
        self._data.pop(0)

    def write(self) -> None:
        """Writes what is left, completes the file and puts it in its place."""
        while self._data:
            data = self._data.pop(0)
            if data is not None:
                self._write(data)
        lib.call("gguf_writer_finish", self._handle)
        self.close()

    def _write(self, data: Optional[npt.NDArray[Any]]) -> None:
        raw = np.ascontiguousarray(data)
        lib.call("gguf_writer_write", self._handle, _pointer(raw), raw.nbytes)


def _payload(key: str, value: Any, type: Optional[str]) -> Tuple[int, int, int, bytes]:
    """Type, element type, count and bytes of a value."""
    if isinstance(value, (list, tuple, np.ndarray)):
        inner = type[6:-1] if type is not None and type.startswith("array[") else type
        items = value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind == "U" else value
        if len(items) and isinstance(items[0], str) or inner == "string":
            texts = [item.encode(errors="surrogateescape") for item in items]
            return _ARRAY, _STRING, len(texts), b"".join(struct.pack("<Q", len(text)) + text for text in texts)
        number = _number(key, inner) if inner else _guess(key, items)
        array = np.asarray(items)
        if array.ndim != 1:
            raise TypeError(f"{key}: expected an array of one dimension, got {array.ndim}")
        return _ARRAY, number, len(array), _packed(key, array, number)
    if isinstance(value, str):
        return _STRING, 0, 1, value.encode(errors="surrogateescape")
    number = _number(key, type) if type else _guess(key, [value])
    return number, 0, 1, _packed(key, np.asarray([value]), number)


def _number(key: str, type: str) -> int:
    if type not in _NAMES or _NAMES.index(type) in (_STRING, _ARRAY):
        raise TypeError(f"{key}: no type of numbers is called {type!r}")
    return _NAMES.index(type)


def _guess(key: str, items: Any) -> int:
    array = np.asarray(items)
    if isinstance(items, np.ndarray):
        for number, kind in enumerate(_DTYPES):
            if kind and np.dtype(kind) == array.dtype:
                return number
    if array.dtype.kind == "b":
        return _BOOL
    if array.dtype.kind == "f":
        return _NAMES.index("float32")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{key}: cannot store {array.dtype}")
    for name in ("int32", "int64", "uint64"):
        limits = np.iinfo(name)
        if not array.size or (int(array.min()) >= limits.min and int(array.max()) <= limits.max):
            return _NAMES.index(name)
    raise ValueError(f"{key}: a number has more than 64 bits")


def _packed(key: str, array: npt.NDArray[Any], number: int) -> bytes:
    kind = np.dtype(_DTYPES[number])
    if kind.kind in "iu":
        if array.size and array.dtype.kind not in "iub":
            raise TypeError(f"{key}: expected whole numbers, got {array.dtype}")
        limits = np.iinfo(kind)
        if array.size and (int(array.min()) < limits.min or int(array.max()) > limits.max):
            raise ValueError(f"{key}: expected {limits.min} to {limits.max}")
    elif array.dtype.kind not in "fiub":
        raise TypeError(f"{key}: expected numbers, got {array.dtype}")
    return array.astype(kind).tobytes()
