"""GGUF files from Python, compared with the program and with plain numpy."""

import gc
import random
import resource
import struct
from concurrent.futures import ThreadPoolExecutor

import cria
import numpy as np
import pytest
from conftest import DEMO, SOURCE, program

MATRIX = "blk.0.attn_q.weight"
TYPES = sorted(file.name[:-7] for file in (SOURCE / "tests/data/dequant").glob("*.blocks"))


@pytest.fixture
def demo():
    with cria.GGUFFile(DEMO) as file:
        yield file


def fixture(name):
    data = SOURCE / "tests/data/dequant"
    blocks = np.fromfile(data / f"{name}.blocks", dtype=np.uint8)
    return blocks, np.fromfile(data / f"{name}.f32", dtype=np.float32)


def values(*shape):
    return np.random.default_rng(1).normal(0, 0.02, shape).astype(np.float32)


def test_fields_have_their_types_and_values(demo):
    assert demo.fields["general.architecture"] == "llama"
    assert demo.fields["llama.block_count"] == len({name.split(".")[1] for name in demo.tensors if name.startswith("blk.")})
    assert demo.fields.type("general.architecture") == "string"
    tokens = demo.fields["tokenizer.ggml.tokens"]
    assert len(tokens) == demo.tensors["token_embd.weight"].shape[0] and all(isinstance(token, str) for token in tokens)
    assert demo.fields.type("tokenizer.ggml.tokens") == "array[string]"
    with pytest.raises(KeyError):
        demo.fields["no.such.field"]


def test_q8_0_is_what_numpy_reads_at_the_offset(demo):
    tensor = demo.tensors[MATRIX]
    rows, cols = tensor.shape
    assert tensor.dtype == "Q8_0"
    raw = np.fromfile(DEMO, dtype=np.uint8, count=tensor.raw.size, offset=tensor.offset)
    assert np.array_equal(raw.reshape(tensor.raw.shape), tensor.raw)
    blocks = raw.reshape(-1, 34)
    expected = blocks[:, :2].copy().view("<f2").astype(np.float32) * blocks[:, 2:].copy().view(np.int8)
    assert np.array_equal(tensor.dequantize(), expected.reshape(rows, cols))
    assert np.array_equal(tensor.dequantize(slice(3, 7)), expected.reshape(rows, cols)[3:7])
    assert np.array_equal(tensor.dequantize(slice(None, None, -2)), expected.reshape(rows, cols)[::-2])
    assert tensor.dequantize(slice(5, 5)).shape == (0, cols)


@pytest.mark.parametrize("name", TYPES)
def test_dequantize_reads_every_type(name):
    blocks, expected = fixture(name)
    cols = 512 if cria.dtype(name).header_bytes or "_R" in name else len(expected)  # _R4, _R8: rows lie together
    got = cria.dequantize(blocks, name, (len(expected) // cols, cols), threads=2)
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["Q4_K", "IQ1_S", "IQ4_K", "IQ5_KS"])
@pytest.mark.parametrize("weighted", [False, True])
def test_quantize_gives_the_bytes_of_the_program(tmp_path, name, weighted):
    x = values(32, 256)
    importance = np.random.default_rng(2).random(256, dtype=np.float32) if weighted else None
    one = cria.quantize(x, name, importance, threads=1)
    assert np.array_equal(one, cria.quantize(x, name, importance, threads=3))
    if weighted:
        assert not np.array_equal(one, cria.quantize(x, name))
        return
    source, target = tmp_path / "f32.gguf", tmp_path / "out.gguf"
    with cria.GGUFFile(DEMO) as file, cria.GGUFWriter(source) as writer:
        writer.copy_fields(file)
        for tensor in file.tensors.values():
            if len(tensor.shape) > 1:
                writer.add_tensor(tensor.name, tensor.dequantize())
            else:
                writer.copy_tensor(tensor)
        writer.write()
    program("quantize", source, target, name, "--pure")
    with cria.GGUFFile(source) as before, cria.GGUFFile(target) as after:
        old, new = before.tensors[MATRIX], after.tensors[MATRIX]
        assert new.dtype == name
        assert np.array_equal(cria.quantize(old.raw.view(np.float32), name), new.raw)


def test_writer_round_trip(tmp_path):
    path = tmp_path / "new.gguf"
    x = values(4, 8, 32)
    with cria.GGUFWriter(path, alignment=64) as writer:
        writer.set("general.architecture", "x")
        fields = {"a.int": -5, "a.big": 2**63, "a.float": 0.5, "a.bool": True, "a.text": "Grüße", "a.texts": ["", "b"], "a.none": []}
        for key, value in fields.items():
            writer.set(key, value, "array[string]" if value == [] else None)
        writer.set("a.small", 7, "uint8")
        writer.set("a.numbers", np.arange(5, dtype=np.uint16))
        writer.add_tensor("plain", x)
        writer.add_tensor("half", x.astype(np.float16))
        writer.add_tensor("packed", x, "Q8_0")
        writer.add_tensor("later", None, "F32", (2, 32))
        writer.write_data(x[0, 0])
        writer.write_data(x[0, 1])
        writer.next_tensor()
        writer.write()
    with cria.GGUFFile(path) as file:
        assert file.alignment == 64 and file.version == 3
        assert {key: file.fields[key] for key in fields} == fields
        assert file.fields.type("a.small") == "uint8" and file.fields.type("a.big") == "uint64"
        assert file.fields["a.numbers"].tolist() == [0, 1, 2, 3, 4] and file.fields.type("a.numbers") == "array[uint16]"
        assert all(tensor.offset % 64 == 0 for tensor in file.tensors.values())
        assert np.array_equal(file.tensors["plain"].dequantize(), x) and file.tensors["plain"].shape == x.shape
        assert np.array_equal(file.tensors["half"].dequantize(), x.astype(np.float16).astype(np.float32))
        assert np.array_equal(file.tensors["packed"].raw, cria.quantize(x, "Q8_0"))
        assert np.array_equal(file.tensors["later"].dequantize(), x[0, :2])
        assert file.check() == []


def test_diff_names_what_differs(tmp_path, demo):
    path = tmp_path / "edited.gguf"
    with cria.GGUFWriter(path) as writer:
        writer.copy_fields(demo, without=("general.name",))
        writer.set("general.new", 1)
        for tensor in demo.tensors.values():
            if tensor.name == MATRIX:
                changed = tensor.raw.copy()
                changed[0, 5] ^= 1
                writer.add_tensor(tensor.name, changed, tensor.dtype, tensor.shape)
            else:
                writer.copy_tensor(tensor)
        writer.write()
    with cria.GGUFFile(path) as edited:
        difference = demo.diff(edited)
        assert difference.tensors == [MATRIX]
        assert set(difference.fields) == {"general.new"} | ({"general.name"} & set(demo.fields))
    assert not demo.diff(demo)


def test_check_finds_nan(tmp_path):
    path = tmp_path / "nan.gguf"
    x = values(3, 32)
    x[1, 4] = np.nan
    with cria.GGUFWriter(path) as writer:
        writer.set("general.architecture", "x")
        writer.add_tensor("t", x)
        writer.write()
    with cria.GGUFFile(path) as file:
        assert file.check() == ["tensor t: 1 values are NaN or infinite"]


def test_wrong_calls_are_errors(tmp_path, demo):
    x = values(2, 256)
    for call in (
        lambda: cria.quantize(x, "Q9_K"),
        lambda: cria.quantize(x[:, :100], "Q4_K"),
        lambda: cria.quantize(np.float32(1), "Q4_K"),
        lambda: cria.quantize(x, "Q4_K", x[0, :5]),
        lambda: cria.quantize(np.where(x > 0, np.inf, x), "Q4_K"),
        lambda: cria.quantize(x * 1e9, "F16"),
        lambda: cria.dequantize(np.zeros(143, np.uint8), "Q4_K", (1, 256)),
        lambda: cria.GGUFFile(tmp_path / "missing.gguf"),
        lambda: cria.GGUFWriter(tmp_path / "x.gguf", alignment=33),
    ):
        with pytest.raises((cria.Error, ValueError, TypeError)):
            call()
    path = tmp_path / "unfinished.gguf"
    with cria.GGUFWriter(path) as writer:
        writer.add_tensor("t", None, "F32", (1, 32))
        with pytest.raises(cria.Error, match="more data than the tensor has"):
            writer.write_data(x[0])
        writer.next_tensor()
        with pytest.raises(cria.Error, match="data is missing"):
            writer.write()
        with pytest.raises(cria.Error):
            writer.set("too.late", 1)
    assert not path.exists()
    with pytest.raises(ValueError):  # a view of a mapping
        demo.tensors[MATRIX].raw[0] = 0


def test_views_keep_their_mapping():
    file = cria.GGUFFile(DEMO)
    tensor = file.tensors[MATRIX]
    raw, scores = tensor.raw, file.fields["tokenizer.ggml.token_type"]
    expected, total = raw.copy(), scores.sum()
    file.close()
    del file, tensor
    gc.collect()
    assert np.array_equal(raw, expected) and scores.sum() == total


def test_dropped_views_leave_nothing(demo):
    def drop(n):
        for _ in range(n):
            demo.tensors[MATRIX].raw[0]
        gc.collect()

    drop(1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    drop(10_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2048  # KiB


def large_array():
    """8 MiB of zeros, decoded."""
    return cria.dequantize(np.zeros((1024, 2048 // 32 * 34), dtype=np.uint8), "Q8_0", (1024, 2048))


def test_large_arrays_use_the_memory_of_dropped_ones():
    first = large_array()
    second = large_array()
    place = first.ctypes.data
    assert second.ctypes.data != place and first.flags.writeable
    first[:] = 7
    row = first[5]
    del first
    gc.collect()
    third = large_array()
    assert third.ctypes.data != place and (row == 7).all()  # the view keeps the memory
    del row
    gc.collect()
    fourth = large_array()
    assert fourth.ctypes.data == place and not fourth.any()


def test_kept_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("cria._memory._KEPT", 20 << 20)
    arrays = [large_array() for _ in range(5)]
    arrays.clear()
    gc.collect()
    assert sum(map(len, cria._memory._free)) == 16 << 20


def test_threads_drop_arrays():
    def work(number):
        for _ in range(20):
            array = large_array()
            array[:] = number
            assert (array == number).all()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_mutated_files_are_errors_or_files(tmp_path):
    with cria.GGUFWriter(tmp_path / "small.gguf") as writer:
        writer.set("general.architecture", "x")
        writer.set("a.texts", ["one", "two", "three"])
        writer.set("a.numbers", np.arange(9, dtype=np.int64))
        writer.add_tensor("t", values(4, 256), "Q4_K")
        writer.add_tensor("u", values(4, 256), "IQ4_KS")
        writer.write()
    good = (tmp_path / "small.gguf").read_bytes()
    path = tmp_path / "mutated.gguf"
    mutate = random.Random(1)
    refused = 0
    for _ in range(1000):
        data = bytearray(good[: mutate.randrange(8, len(good))] if mutate.random() < 0.2 else good)
        for _ in range(mutate.randrange(1, 4)):
            at = mutate.randrange(min(len(data), 512))
            if mutate.random() < 0.5:
                data[at] = mutate.randrange(256)
            else:
                data[at : at + 8] = struct.pack("<Q", mutate.choice([0, 1, 2**31, 2**63, 2**64 - 1]))
        path.write_bytes(data)
        try:
            with cria.GGUFFile(path) as file:
                for key in file.fields:
                    file.fields[key]
                for tensor in file.tensors.values():
                    tensor.dequantize()
        except cria.Error as error:
            assert error.file == str(path)
            refused += 1
    assert 300 < refused < 1000
