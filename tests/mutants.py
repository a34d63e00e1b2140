#!/usr/bin/env python3
"""Mutated model files: each runs, or is refused in one line. Exits with 1 if the program crashes,
hangs or says something else; such files stay in --keep.

    tests/mutants.py [--files 1000] [--seed 1] [--jobs 2] [--program PROGRAM] MODEL.gguf…

Models should be small: the program reads each file once. It may be built with sanitizers.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCALARS = {0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "B", 10: "<Q", 11: "<q",
           12: "<d"}
STRING, ARRAY = 8, 9
ODD_FLOATS = [0.0, -1.0, 1e-40, 1e38, float("inf"), float("-inf"), float("nan")]


class Gguf:
    """A file, and where its numbers lie: (offset, format) of each. Values are those of keys."""

    def __init__(self, path):
        self.name, self.bytes = path.name, path.read_bytes()
        self.numbers, self.values, self.at = [], [], 8
        tensors, keys = self.number("<Q"), self.number("<Q")
        for _ in range(keys):
            self.string()
            self.value(self.number("<I"))
        for _ in range(tensors):
            self.string()
            for _ in range(self.number("<I")):
                self.number("<Q")
            self.number("<I")
            self.number("<Q")
        self.header = self.at

    def number(self, form):
        value = struct.unpack_from(form, self.bytes, self.at)[0]
        self.numbers.append((self.at, form))
        self.at += struct.calcsize(form)
        return value

    def string(self):
        length = self.number("<Q")
        self.at += length

    def value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            kind, n = self.number("<I"), self.number("<Q")
            for i in range(n):
                known = len(self.numbers), len(self.values)
                self.value(kind)
                if i > 8:  # long lists would hide the other numbers
                    del self.numbers[known[0]:], self.values[known[1]:]
        else:
            self.number(SCALARS[kind])
            self.values.append(self.numbers[-1])


def odd_number(form, chance):
    if form in ("<f", "<d"):
        return struct.pack(form, chance.choice(ODD_FLOATS) if form == "<d" or chance.random() < 0.5
                           else chance.choice([0.5, -2.0, 1e6]))
    bits = 8 * struct.calcsize(form)
    power = 1 << chance.randrange(bits)
    value = chance.choice([chance.randrange(9), power, power - 1, -1 - chance.randrange(3)])
    return (value % (1 << bits)).to_bytes(bits // 8, "little")


def mutant(model, seed):
    chance = random.Random(seed)
    data = bytearray(model.bytes)
    for _ in range(chance.choice([1, 1, 2, 3])):
        kind = chance.random()
        if kind < 0.5:
            at, form = chance.choice(model.values if kind < 0.35 else model.numbers)
            data[at:at + struct.calcsize(form)] = odd_number(form, chance)
        elif kind < 0.65:
            for _ in range(chance.randint(1, 4)):
                data[chance.randrange(model.header)] = chance.randrange(256)
        elif kind < 0.9 and len(data) > model.header + 8:
            at = chance.randrange(model.header, len(data) - 4)
            data[at:at + 4] = struct.pack("<f", chance.choice(ODD_FLOATS))
        elif kind < 0.95:
            at, to = (chance.randrange(model.header) for _ in range(2))
            length = chance.randint(1, 64)
            data[to:to + length] = data[at:at + length]
        else:
            del data[chance.randrange(len(data)):]
            break
    return bytes(data)


def verdict(options, path):
    """Returns "runs" or "refused", or what is wrong."""
    command = ["embed", "-m", path, "-p", "ab a"] if options.embed else \
        ["run", "-m", path, "-t", "1", "-c", "64", "-n", "3", "--temp", "0", "--raw", "ab a"]
    try:
        done = subprocess.run([options.program, *command], capture_output=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=options.seconds)
    except subprocess.TimeoutExpired:
        return f"takes more than {options.seconds:g} s"
    text = done.stderr.decode(errors="replace")
    if done.returncode < 0 or done.returncode > 2 or "Sanitizer" in text or "runtime error" in text:
        return f"exit code {done.returncode}: {text[-300:]}"
    if done.returncode == 0:
        return "runs"
    remarks = ("cria: note", "cria: warning")
    errors = [line for line in text.splitlines() if not line.startswith(remarks)]
    if len(errors) == 1 and errors[0].startswith("cria: error"):
        return "refused"
    return f"no error of one line: {text[-300:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--program", default=ROOT / "build/release/tools/cria")
    parser.add_argument("--files", type=int, default=1000, help="number of mutated files")
    parser.add_argument("--seed", type=int, default=1, help="of the first file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=30, help="limit of one run")
    parser.add_argument("--embed", action="store_true", help="the models give vectors")
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("mutants"),
                        help="directory of files at fault")
    options = parser.parse_args()
    models = [Gguf(path) for path in options.models]
    found, faults = collections.Counter(), 0
    with tempfile.TemporaryDirectory(prefix="cria-mutants-") as directory:
        def attempt(seed):
            model = models[seed % len(models)]
            path = pathlib.Path(directory) / f"{seed}-{model.name}"
            path.write_bytes(mutant(model, seed))
            result = verdict(options, path)
            if result not in ("runs", "refused"):
                options.keep.mkdir(exist_ok=True)
                (options.keep / path.name).write_bytes(path.read_bytes())
            path.unlink()
            return path.name, result

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            seeds = range(options.seed, options.seed + options.files)
            for name, result in pool.map(attempt, seeds):
                known = result in ("runs", "refused")
                found[result if known else "at fault"] += 1
                if not known:
                    faults += 1
                    print(f"{name}: {result}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in sorted(found.items())))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
