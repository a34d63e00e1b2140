"""What tutorials of GGUF readers do, step by step, with cria; beside it plain numpy, written from the format's description."""

import struct
import subprocess
import sys

import cria
import numpy as np
import pytest
from conftest import DEMO, SOURCE, program

MATRIX = "blk.0.ffn_down.weight"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class PlainReader:
    """Header, fields and tensor table of a GGUF file."""

    def __init__(self, path):
        self.data, self.at = path.read_bytes(), 0
        magic, self.version, n_tensors, n_fields = self.take("<4sIQQ")
        assert magic == b"GGUF"
        self.fields = {self.text(): self.value(*self.take("<I")) for _ in range(n_fields)}
        self.tensors = {}
        for _ in range(n_tensors):
            name, (n_dims,) = self.text(), self.take("<I")
            shape = self.take(f"<{n_dims}Q")
            self.tensors[name] = (shape, *self.take("<IQ"))
        alignment = self.fields.get("general.alignment", 32)
        self.begin = -(-self.at // alignment) * alignment

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def text(self):
        (size,) = self.take("<Q")
        return self.take(f"<{size}s")[0].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            element, count = self.take("<IQ")
            return [self.value(element) for _ in range(count)]
        return self.take("<" + SCALARS[kind])[0]


def q6_k(blocks):
    """Values of Q6_K blocks, [n, 210] bytes: 128 of low nibbles, 64 of upper pairs of bits, 16 scales and d."""
    low, high, scales, d = np.split(blocks, [128, 192, 208], axis=1)
    nibbles = np.stack([low.reshape(-1, 2, 64) & 15, low.reshape(-1, 2, 64) >> 4], axis=2)
    pairs = np.stack([high.reshape(-1, 2, 32) >> shift & 3 for shift in (0, 2, 4, 6)], axis=2)
    q = nibbles.reshape(-1, 256).astype(np.int8) | (pairs.reshape(-1, 256) << 4).astype(np.int8)
    scale = d.copy().view("<f2").astype(np.float32) * scales.view(np.int8).astype(np.float32)
    return (scale[:, :, None] * (q - 32).reshape(-1, 16, 16).astype(np.float32)).reshape(-1, 256)


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    path = tmp_path_factory.mktemp("tutorial") / "Q6_K.gguf"
    program("quantize", DEMO, path, "Q6_K", "--pure", "--allow-requantize")
    return path


def test_a_reader_reads_fields_tensors_and_q6_k(quantized):
    plain = PlainReader(quantized)
    with cria.GGUFFile(quantized) as reader:
        # Fields.
        assert reader.version == plain.version
        assert list(reader.fields) == list(plain.fields)
        for key, expected in plain.fields.items():
            value = reader.fields[key]
            assert (value.tolist() if isinstance(value, np.ndarray) else value) == expected, key
        # The table of tensors.
        assert list(reader.tensors) == list(plain.tensors)
        for name, (shape, kind, offset) in plain.tensors.items():
            tensor = reader.tensors[name]
            assert (tensor.shape[::-1], cria.dtype(tensor.dtype).id, tensor.offset) == (shape, kind, plain.begin + offset)
        # A matrix: where it lies, its values, and its bytes again.
        tensor = reader.tensors[MATRIX]
        assert tensor.dtype == "Q6_K"
        raw = np.frombuffer(plain.data, np.uint8, tensor.raw.size, tensor.offset)
        assert np.array_equal(raw, tensor.raw.reshape(-1))
        values = tensor.dequantize()
        assert np.array_equal(values, q6_k(raw.reshape(-1, 210)).reshape(tensor.shape))
        again = cria.quantize(values, "Q6_K")
        error = np.sqrt(np.mean((cria.dequantize(again, "Q6_K", values.shape) - values) ** 2))
        assert error < 0.01 * np.sqrt(np.mean(values**2))


def test_a_file_written_back_is_the_same(quantized, tmp_path):
    path = tmp_path / "copy.gguf"
    with cria.GGUFFile(quantized) as reader, cria.GGUFWriter(path) as writer:
        writer.copy_fields(reader)
        for tensor in reader.tensors.values():
            writer.add_tensor(tensor.name, tensor.raw, tensor.dtype, tensor.shape)
        writer.write()
    assert path.read_bytes() == quantized.read_bytes()


def test_state_dict_has_the_names_and_rows_of_hugging_face(tmp_path):
    sys.path.insert(0, str(SOURCE / "python/examples"))
    try:
        import state_dict
    finally:
        sys.path.pop(0)
    weights = state_dict.to_state_dict(DEMO)
    with cria.GGUFFile(DEMO) as file:
        config = file.fields
        embedding, down = file.tensors["token_embd.weight"], file.tensors[MATRIX]
        assert np.array_equal(weights["model.embed_tokens.weight"], embedding.dequantize())
        assert np.array_equal(weights["model.layers.0.mlp.down_proj.weight"], down.dequantize())
        # Rows of queries: in pairs in the file, in halves of heads there.
        query, heads = file.tensors["blk.0.attn_q.weight"].dequantize(), config["llama.attention.head_count"]
        halves = query.reshape(heads, -1, 2, query.shape[1]).swapaxes(1, 2).reshape(query.shape)
        assert np.array_equal(weights["model.layers.0.self_attn.q_proj.weight"], halves)


def test_a_thousand_damaged_files_are_read_or_refused(quantized, tmp_path):
    """In a process of its own, which must end well."""
    script = tmp_path / "damaged.py"
    script.write_text(
        """
import random, sys
import cria
source, path = sys.argv[1:]
good = open(source, "rb").read()
chance, refused = random.Random(5), 0
for n in range(1000):
    data = bytearray(good)
    # Mostly in fields and the table of tensors, which lie before the data.
    for _ in range(chance.choice((1, 1, 2, 8))):
        data[chance.randrange(chance.choice((64, 4096, 1 << 17, len(data))))] = chance.choice((0, 1, 255, chance.randrange(256)))
    if n % 5 == 0:
        del data[chance.randrange(len(data)) :]
    with open(path, "wb") as file:
        file.write(data)
    try:
        with cria.GGUFFile(path) as file:
            for key in file.fields:
                file.fields[key]
            for name in chance.sample(list(file.tensors), min(1, len(file.tensors))):
                file.tensors[name].dequantize()
            file.check() if n % 50 == 0 else None
    except cria.Error as error:
        refused += 1
        assert error.file == path and str(error), error
print(refused)
"""
    )
    out = subprocess.run([sys.executable, "-B", script, quantized, tmp_path / "damaged.gguf"], check=True, capture_output=True, text=True)
    assert 200 < int(out.stdout) < 1000
