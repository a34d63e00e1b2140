#!/usr/bin/env python3
"""Compares how loaders handle damaged files: mutates a small valid model N times (equal for equal seeds)
and gives each file to every program.

  tests/compare_loaders.py --cria build/release/tools/cria [--peer DIR_WITH_llama-gguf_AND_llama-bench] [-n 1000] [--seed 1]

Each program has 10 s of CPU and 2 GiB of address space. A file is refused (exit code without a signal),
accepted, or the program crashed (signals), aborted (SIGABRT) or hung. Accepting is wrong if the file breaks
a rule of the format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) or, for programs that run
the model, lacks what a llama model needs; parse() and check_model() have the rules. Overlapping tensors,
unknown keys and special tokens beyond the vocabulary are allowed. NaN and infinite weights count separately.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}
# Values and bytes per block of the tensor types that the format knows.
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36), 10: (256, 84),
          11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74),
          18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2),
          26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17)}
EMBD, HEADS, KV_HEADS, FF, VOCAB, LAYERS, ALIGNMENT = 64, 4, 2, 96, 300, 2, 32


class Invalid(Exception):
    pass


# ---------------------------------------------------------------- the valid model


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def array(element, values):
    body = b"".join(string(v) if element == STRING else struct.pack("<" + FORMATS[element], v) for v in values)
    return struct.pack("<IQ", element, len(values)) + body


def model():
    """keys: [name, type, payload]; tensors: [name, dims, type, offset]; data."""
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    tokens += ["\u2581w%d" % i for i in range(VOCAB - len(tokens))]
    types = [2, 3, 3] + [6] * 256 + [1] * (VOCAB - 259)
    u32 = lambda n: (U32, struct.pack("<I", n))
    keys = [["general.architecture", STRING, string("llama")], ["general.name", STRING, string("tiny")]]
    for name, value in (("block_count", LAYERS), ("context_length", 64), ("embedding_length", EMBD),
                        ("feed_forward_length", FF), ("attention.head_count", HEADS),
                        ("attention.head_count_kv", KV_HEADS),
                        ("rope.dimension_count", EMBD // HEADS),
                        ("vocab_size", VOCAB)):
        keys.append(["llama." + name, *u32(value)])
    keys.append(["llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)])
    keys.append(["llama.rope.freq_base", F32, struct.pack("<f", 10000)])
    keys += [["tokenizer.ggml.model", STRING, string("llama")], ["tokenizer.ggml.tokens", ARRAY, array(STRING, tokens)],
             ["tokenizer.ggml.scores", ARRAY, array(F32, [-float(i) for i in range(VOCAB)])],
             ["tokenizer.ggml.token_type", ARRAY, array(I32, types)],
             ["tokenizer.ggml.bos_token_id", *u32(1)], ["tokenizer.ggml.eos_token_id", *u32(2)],
             ["tokenizer.ggml.unknown_token_id", *u32(0)]]
    kv = EMBD // HEADS * KV_HEADS
    tensors = [["token_embd.weight", [EMBD, VOCAB], 8, 0], ["output.weight", [EMBD, VOCAB], 8, 0],
               ["output_norm.weight", [EMBD], 0, 0]]
    for i in range(LAYERS):
        p = "blk.%d." % i
        tensors += [[p + "attn_norm.weight", [EMBD], 0, 0], [p + "attn_q.weight", [EMBD, EMBD], 8, 0],
                    [p + "attn_k.weight", [EMBD, kv], 1, 0], [p + "attn_v.weight", [EMBD, kv], 2, 0],
                    [p + "attn_output.weight", [EMBD, EMBD], 8, 0], [p + "ffn_norm.weight", [EMBD], 0, 0],
                    [p + "ffn_gate.weight", [EMBD, FF], 8, 0], [p + "ffn_up.weight", [EMBD, FF], 2, 0],
                    [p + "ffn_down.weight", [FF, EMBD], 0, 0]]
    numbers = random.Random(7)
    data = bytearray()
    for tensor in tensors:
        tensor[3] = len(data)
        values, size = BLOCKS[tensor[2]]
        count = math.prod(tensor[1])
        for _ in range(count // values):
            if size == 4:
                data += struct.pack("<f", 1.0 if len(tensor[1]) == 1 else numbers.gauss(0, 0.1))
            elif size == 2:
                data += struct.pack("<e", numbers.gauss(0, 0.1))
            else:
                data += struct.pack("<e", numbers.uniform(0.001, 0.01)) + numbers.randbytes(size - 2)
        data += bytes(-len(data) % ALIGNMENT)
    return keys, tensors, data


def header(version, keys, tensors, n_keys=None, n_tensors=None):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                                len(keys) if n_keys is None else n_keys)
    for name, kind, payload in keys:
        out += string(name) + struct.pack("<I", kind) + payload
    for name, dims, kind, offset in tensors:
        out += string(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
        out += struct.pack("<IQ", kind, offset)
    return out


# ---------------------------------------------------------------- mutations

ODD = [0, 1, 2, 3, 7, 8, 31, 32, 33, 255, 256, 65535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 42) + 1,
       (1 << 63) - 1, 1 << 63, (1 << 64) - 32, (1 << 64) - 1]
ODD_FLOATS = [0.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, 3e38]


def random_value(rng):
    kind = rng.randrange(13)
    if kind == STRING:
        return kind, string(rng.choice(["", "llama", "gpt2", "x" * 100, b"\xff\xfe", "none"]))
    if kind == ARRAY:
        element = rng.choice([U8, I32, U32, F32, STRING, BOOL])
        n = rng.randrange(4)
        return kind, array(element, ["a"] * n if element == STRING else [1] * n)
    if kind in (F32, F64):
        return kind, struct.pack("<" + FORMATS[kind], rng.choice(ODD_FLOATS))
    size = struct.calcsize(FORMATS[kind])
    return kind, struct.pack("<Q", rng.choice(ODD))[:size]


def change_key(rng, keys, tensors):
    at = rng.randrange(len(keys))
    name, kind, payload = keys[at]
    what = rng.randrange(7)
    if what == 0:
        del keys[at]
    elif what == 1:
        keys.append(list(keys[at]))
    elif what == 2:
        keys[at][0] = rng.choice(["", "a", name + "\0", name[:-1], "x" * 70000])
    elif what == 3:
        keys[at][1] = rng.choice([13, 99, 1 << 31, kind ^ 1, STRING, ARRAY])
    elif what == 4 and kind == ARRAY:  # another length, or type, of its elements
        element, count = struct.unpack_from("<IQ", payload)
        if rng.random() < 0.5:
            count = rng.choice(ODD + [count - 1, count + 1])
        else:
            element = rng.randrange(15)
        keys[at][2] = struct.pack("<IQ", element, count % (1 << 64)) + payload[12:]
    elif what == 4 and kind == STRING:
        keys[at][2] = struct.pack("<Q", rng.choice(ODD)) + payload[8:]
    else:
        keys[at][1:] = random_value(rng)


def change_tensor(rng, keys, tensors):
    at = rng.randrange(len(tensors))
    tensor = tensors[at]
    what = rng.randrange(8)
    if what == 0:
        del tensors[at]
    elif what == 1:
        tensors.append([tensor[0], list(tensor[1]), tensor[2], tensor[3]])
    elif what == 2:
        tensor[0] = rng.choice(["", "a", tensor[0] + "\0x", "blk.9.attn_q.weight", "y" * 200])
    elif what == 3:
        tensor[1] = tensor[1] * 3 if rng.random() < 0.5 else []
    elif what in (4, 5):
        tensor[1][rng.randrange(len(tensor[1]))] = rng.choice(ODD)
    elif what == 6:
        tensor[2] = rng.choice([4, 5, 9, 15, 31, 33, 36, 40, 99, 1 << 31, 24, 28, 0, 2, 12])
    else:
        tensor[3] = rng.choice(ODD + [tensor[3] + 1, tensor[3] + 32, 8, 16])


def mutate(rng):
    """Returns one mutated file."""
    keys, tensors, data = model()
    version, n_keys, n_tensors = 3, None, None
    kind = rng.choices(["key", "tensor", "count", "version", "truncate", "flip header", "flip data", "cut inside"],
                       [30, 26, 6, 2, 12, 14, 6, 4])[0]
    if kind == "key":
        change_key(rng, keys, tensors)
    elif kind == "tensor":
        change_tensor(rng, keys, tensors)
    elif kind == "count":
        n = rng.choice(ODD + [len(keys) - 1, len(keys) + 1, len(tensors) - 1, len(tensors) + 1])
        n_keys, n_tensors = (n, None) if rng.random() < 0.5 else (None, n)
    elif kind == "version":
        version = rng.choice([0, 1, 2, 4, 5, 1 << 24, 3 << 24, (1 << 32) - 1])
    head = bytearray(header(version, keys, tensors, n_keys, n_tensors))
    if kind == "flip header":
        for _ in range(rng.randrange(1, 4)):
            head[rng.randrange(len(head))] ^= 1 << rng.randrange(8)
    if kind == "cut inside":  # the rest moves
        at = rng.randrange(len(head))
        del head[at:at + rng.randrange(1, 9)]
    head += bytes(-len(head) % ALIGNMENT)
    if kind == "flip data":
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            data[at] = rng.randrange(256)
    out = bytes(head) + bytes(data)
    if kind == "truncate":
        out = out[:rng.randrange(len(out)) if rng.random() < 0.5 else rng.randrange(len(head))]
    return kind, out


# ---------------------------------------------------------------- the rules


class Reader:
    def __init__(self, data, version=3):
        self.data, self.at = data, 0

    def take(self, n):
        if n > len(self.data) - self.at:
            raise Invalid("ends too early")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def text(self):
        return self.take(self.number("Q"))

    def value(self, kind, depth=0):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            element, count = self.number("I"), self.number("Q")
            if element > F64:
                raise Invalid("unknown element type")
            if count > len(self.data):
                raise Invalid("array beyond the end")
            return element, [self.value(element, depth + 1) for _ in range(count)]
        if kind not in FORMATS:
            raise Invalid("unknown value type")
        value = self.number(FORMATS[kind])
        if kind == BOOL and value > 1:
            raise Invalid("a bool that is neither 0 nor 1")
        return value


def parse(data):
    """Returns keys {name: (type, value)} and tensors {name: (dims, type, bytes)}, or raises Invalid."""
    r = Reader(data)
    if r.take(4) != b"GGUF":
        raise Invalid("magic")
    if r.number("I") not in (2, 3):  # version 1 has other counts, so a file of version 3 is invalid
        raise Invalid("version")
    n_tensors, n_keys = r.number("Q"), r.number("Q")
    if n_tensors > len(data) or n_keys > len(data):
        raise Invalid("more entries than bytes")
    keys, tensors = {}, {}
    for _ in range(n_keys):
        name = r.text()
        if len(name) > 65535 or not name:
            raise Invalid("length of a key")
        if name in keys:
            raise Invalid("duplicate key")
        kind = r.number("I")
        keys[name] = kind, r.value(kind)
    alignment = keys.get(b"general.alignment", (U32, ALIGNMENT))
    if alignment[0] != U32 or alignment[1] == 0 or alignment[1] % 8 or alignment[1] & (alignment[1] - 1):
        raise Invalid("alignment")
    found = []
    for _ in range(n_tensors):
        name = r.text()
        if name in tensors:
            raise Invalid("duplicate tensor")
        n = r.number("I")
        if not 1 <= n <= 4:
            raise Invalid("dimensions")
        dims = [r.number("Q") for _ in range(n)]
        kind, offset = r.number("I"), r.number("Q")
        if kind not in BLOCKS:
            raise Invalid("unknown tensor type")
        if any(d == 0 or d >= 1 << 63 for d in dims) or math.prod(dims) >= 1 << 63:
            raise Invalid("dimension")
        values, size = BLOCKS[kind]
        if dims[0] % values:
            raise Invalid("row of part of a block")
        if offset % alignment[1]:
            raise Invalid("misaligned offset")
        tensors[name] = dims, kind
        found.append((offset, math.prod(dims) // values * size, name))
    begin = r.at + -r.at % alignment[1]
    for offset, size, name in found:
        if begin + offset + size > len(data):
            raise Invalid("tensor beyond the end")
        tensors[name] += (data[begin + offset:begin + offset + size],)
    return keys, tensors


def integer(keys, name, least, most):
    kind, value = keys.get(name, (None, None))
    if kind not in (U8, I8, U16, I16, U32, I32, U64, I64) or not least <= value <= most:
        raise Invalid("no sensible " + name.decode())
    return value


def check_model(keys, tensors):
    if keys.get(b"general.architecture") != (STRING, b"llama"):
        raise Invalid("architecture")  # the model is Llama
    get = lambda name, most: integer(keys, b"llama." + name, 1, most)
    layers, embd, ff = get(b"block_count", 1024), get(b"embedding_length", 1 << 20), get(b"feed_forward_length", 1 << 24)
    heads, _ = get(b"attention.head_count", 1024), get(b"context_length", 1 << 32)
    kv = get(b"attention.head_count_kv", heads) if b"llama.attention.head_count_kv" in keys else heads
    kind, eps = keys.get(b"llama.attention.layer_norm_rms_epsilon", (None, None))
    if kind not in (F32, F64) or not math.isfinite(eps) or eps < 0:
        raise Invalid("epsilon")
    if b"llama.rope.freq_base" in keys:
        kind, base = keys[b"llama.rope.freq_base"]
        if kind not in (F32, F64) or not math.isfinite(base) or base <= 0:
            raise Invalid("RoPE base")
    if embd % heads or heads % kv:
        raise Invalid("heads")
    vocab = keys.get(b"tokenizer.ggml.tokens")
    if vocab is None or vocab[0] != ARRAY or vocab[1][0] != STRING or not vocab[1][1]:
        raise Invalid("tokens")
    n_vocab = len(vocab[1][1])
    for name in (b"scores", b"token_type"):
        other = keys.get(b"tokenizer.ggml." + name)
        if other is not None and (other[0] != ARRAY or len(other[1][1]) != n_vocab):
            raise Invalid("length of " + name.decode())
    wanted = {b"token_embd.weight": [embd, n_vocab], b"output_norm.weight": [embd]}
    head = embd // heads
    for i in range(min(layers, 1024)):
        p = b"blk.%d." % i
        for name, dims in ((b"attn_norm", [embd]), (b"attn_q", [embd, embd]), (b"attn_k", [embd, head * kv]),
                           (b"attn_v", [embd, head * kv]), (b"attn_output", [embd, embd]), (b"ffn_norm", [embd]),
                           (b"ffn_gate", [embd, ff]), (b"ffn_up", [embd, ff]), (b"ffn_down", [ff, embd])):
            wanted[p + name + b".weight"] = dims
    if b"output.weight" in tensors:
        wanted[b"output.weight"] = [embd, n_vocab]
    for name, dims in wanted.items():
        if name not in tensors:
            raise Invalid("missing tensor")
        if [d for d in tensors[name][0]] != dims and tensors[name][0] + [1] * (len(dims) - len(tensors[name][0])) != dims:
            raise Invalid("wrong shape")


def has_bad_floats(tensors):
    """True if a scale or float weight is NaN or infinite."""
    for dims, kind, data in tensors.values():
        floats = struct.unpack("<%df" % (len(data) // 4), data) if kind == 0 else ()
        if any(not math.isfinite(x) for x in floats):
            return True
        size = {1: 2, 2: 18, 8: 34}.get(kind)
        if size and any(not math.isfinite(struct.unpack_from("<e", data, i)[0]) for i in range(0, len(data), size)):
            return True
    return False


def judge(data):
    """Returns (broken rule of the file or None, of the model or None, has NaN or infinite weights)."""
    try:
        keys, tensors = parse(data)
    except Invalid as broken:
        return str(broken), str(broken), False
    try:
        check_model(keys, tensors)
    except Invalid as broken:
        return None, str(broken), False
    return None, None, has_bad_floats(tensors)


# ---------------------------------------------------------------- programs

SECONDS, ADDRESS_SPACE = 10, 2 << 30


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command):
    """Returns the outcome and the last line of stderr. A blocked program uses no CPU: it gets 10 minutes."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=limits, timeout=SECONDS * 60, env={**os.environ, "GGML_NO_BACKTRACE": "1"})
    except subprocess.TimeoutExpired:
        return "hung", ""
    text = done.stderr.decode(errors="replace").strip().splitlines()
    last = text[-1] if text else ""
    if done.returncode == 0:
        return "accepted", last
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "hung", last
    if done.returncode == -signal.SIGABRT:
        return "aborted", last
    if done.returncode < 0:
        return "crashed", signal.Signals(-done.returncode).name
    return "refused", last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cria", required=True)
    parser.add_argument("--peer", help="directory with llama-gguf and llama-bench")
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--keep", help="directory for wrongly accepted files and those that crashed a program")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    programs = {"cria inspect --check": (False, lambda f: [options.cria, "inspect", "--check", f]),
                "cria run": (True, lambda f: [options.cria, "run", "-m", f, "-p", "a", "-n", "1", "-t", "1"])}
    if options.peer:
        programs["llama-gguf"] = (False, lambda f: [options.peer + "/llama-gguf", f, "r", "n"])
        programs["llama-bench"] = (True, lambda f: [options.peer + "/llama-bench", "-m", f, "-p", "1", "-n", "1", "-r", "1",
                                                    "-t", "1"])
    counts = {name: collections.Counter() for name in programs}
    wrong = {name: collections.Counter() for name in programs}
    ends = {name: collections.Counter() for name in programs}
    truth = collections.Counter()
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        path = os.path.join(directory, "m.gguf")
        keys, tensors, data = model()
        head = header(3, keys, tensors)
        whole = head + bytes(-len(head) % ALIGNMENT) + bytes(data)
        assert judge(whole) == (None, None, False), judge(whole)
        with open(path, "wb") as out:
            out.write(whole)
        for name, (_, command) in programs.items():
            outcome, last = run(command(path))
            if outcome != "accepted":
                sys.exit(f"{name} refuses the valid model: {outcome}: {last}")
        def one(i):
            """Returns file i, its kind and verdicts, and each program's outcome."""
            kind, content = mutate(random.Random(options.seed * 1000003 + i))
            own = os.path.join(directory, f"{i}.gguf")
            with open(own, "wb") as out:
                out.write(content)
            outcomes = {name: run(command(own)) for name, (_, command) in programs.items()}
            outcomes = {name: (what, last.replace(own, "FILE")) for name, (what, last) in outcomes.items()}
            os.remove(own)
            return kind, content, judge(content), outcomes

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(one, range(options.n)))
    for i, (kind, content, (file_rule, model_rule, bad_floats), outcomes) in enumerate(results):
        truth["file broken" if file_rule else "model broken" if model_rule else
              "weights not finite" if bad_floats else "valid"] += 1
        for name, (runs, _) in programs.items():
            outcome, last = outcomes[name]
            counts[name][outcome] += 1
            rule = model_rule if runs else file_rule
            bad = outcome in ("crashed", "aborted", "hung")
            if bad:
                ends[name][f"{outcome}: {kind}: {last[:90]}"] += 1
            if outcome == "accepted" and rule:
                counts[name]["accepted wrongly"] += 1
                wrong[name][rule] += 1
                bad = True
            if outcome == "accepted" and runs and bad_floats:
                counts[name]["ran with NaN or infinite weights"] += 1
            if outcome == "refused" and not rule and not bad_floats:
                counts[name]["refused although no rule is broken"] += 1
                ends[name][f"refused although no rule is broken: {last[-90:]}"] += 1
            if bad and options.keep:
                os.makedirs(options.keep, exist_ok=True)
                with open(os.path.join(options.keep, f"{name.replace(' ', '-')}-{i}-{outcome}.gguf"), "wb") as out:
                    out.write(content)
    result = {"files": options.n, "seed": options.seed, "files by the rules": truth,
              "programs": {name: {"outcomes": counts[name], "accepted although": wrong[name], "ends": ends[name]}
                           for name in programs}}
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{options.n} files, seed {options.seed}:", ", ".join(f"{n} {what}" for what, n in truth.most_common()))
    columns = ["refused", "accepted", "accepted wrongly", "ran with NaN or infinite weights", "crashed", "aborted", "hung",
               "refused although no rule is broken"]
    print("| | " + " | ".join(columns) + " |\n|---" + "|--:" * len(columns) + "|")
    for name in programs:
        print(f"| `{name}` | " + " | ".join(str(counts[name][c]) for c in columns) + " |")
    for name in programs:
        for what, n in (wrong[name] + ends[name]).most_common(40):
            print(f"{name}: {n} × {what}")


if __name__ == "__main__":
    main()
