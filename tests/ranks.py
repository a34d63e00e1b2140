#!/usr/bin/env python3
"""Several ranks of one machine, at length: the bytes of one process whatever the division, and what each rank holds.

    tests/ranks.py [sameness] [memory] [--program build/release/tools/cria] [--mpirun mpirun] [--model FILE]…

sameness: logits, greedy and sampled answers, perplexity and a file of requests, for every division, model and type of keys and
values; --shape and --kv-type take parts of the some 480 runs. Models: --shape's, and what --model adds. memory: a table (Markdown)
of what 1, 2 and 4 ranks read of a model's file and have in memory (the files lie in $TMPDIR: 2.5 GB, on a disk).
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIVISIONS = [(2, "1,1"), (2, "2,1"), (3, "1,1,1"), (3, "5,3,1"), (4, "1,1,1,1"), (7, "1,1,1,1,1,1,1"), (2, "auto")]
KV_TYPES = ["f16", "f32", "q8_0"]
DEMO = ROOT / "data/cria-demo-Q8_0.gguf"
SHAPES = ["text", "demo:Q4_K", "moe-demo:Q4_K", "mla-demo:Q4_K"]  # text: the demo model
TEXT = ("The ship that left the harbour in the morning came back before the evening. Nobody had seen the island that the "
        "captain spoke of, and those who had been with him said nothing at all. ")
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
MIB = 1 << 20


def synthetic(options, shape, path):
    subprocess.run([options.program, "bench", "--synthetic", shape, "--write", path, "-p", "1", "-n", "0", "-r", "1"], check=True,
                   stdout=subprocess.DEVNULL)
    return path


class Sameness:
    def __init__(self, options, work):
        self.options, self.work, self.runs, self.wrong = options, work, 0, []
        (work / "text").write_text(TEXT * 6)
        (work / "requests").write_text("".join(
            json.dumps({"prompt": f"Item {i}: the river", "raw": True, "temperature": i % 3 * 0.6, "seed": i, "max_tokens": 4 + i}) + "\n"
            for i in range(6)))

    def output(self, ranks, command):
        """What a command writes, to stdout or to the file that its last argument names."""
        out = self.work / "out"
        out.unlink(missing_ok=True)
        command = [self.options.program, *command, *([str(out)] if command[-1] == "-o" else [])]
        if ranks:
            n, shares = ranks
            command = [self.options.mpirun, "-n", str(n), *command, "--shares", shares]
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, env=ENVIRONMENT, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: {done.stderr.decode()}")
        self.runs += 1
        if "perplexity" in command:
            return json.loads(done.stdout)["ppl"]
        return out.read_bytes() if out.exists() else done.stdout

    def commands(self, model, kv_type, has_texts):
        common = ["-m", str(model), "-t", "1", "--kv-type", kv_type]
        yield ["logits", *common, "--tokens", ",".join(str(i * i % 250 + 3) for i in range(70)), "-o"]
        if not has_texts:
            return
        yield ["run", *common, "--temp", "0", "-n", "24", "--speculate", "lookup", "--raw", "--ignore-eos", TEXT * 2]
        yield ["run", *common, "--seed", "7", "-n", "16", "--raw", "--ignore-eos", TEXT]
        yield ["perplexity", *common, "-f", str(self.work / "text"), "-c", "64", "--chunks", "2", "--json"]
        yield ["batch", *common, "-i", str(self.work / "requests"), "--parallel", "3", "-o"]

    def check(self, model, has_texts):
        for kv_type in self.options.kv_type or KV_TYPES:
            for command in self.commands(model, kv_type, has_texts):
                alone = self.output(None, command)
                for ranks in DIVISIONS:
                    if self.output(ranks, command) != alone:
                        self.wrong.append(f"{model} {kv_type} {command[0]}: {ranks[0]} ranks, shares {ranks[1]}")
                        print("differs:", self.wrong[-1])

    def run(self):
        begin = time.monotonic()
        shapes = [DEMO if shape == "text" else synthetic(self.options, shape, self.work / f"{shape}.gguf")
                  for shape in self.options.shape or SHAPES]
        for model in [*shapes, *self.options.model]:
            self.check(model, model not in self.options.model)
            print(f"{pathlib.Path(model).name}: {len(DIVISIONS)} divisions", flush=True)
        print(f"{self.runs} runs in {time.monotonic() - begin:.0f} s, {len(self.wrong)} differ")
        return not self.wrong


class Memory:
    """Each rank has a copy of the model's file of its own, which no memory holds at first: what of it is read, and what of it a
    process has in memory at its most."""

    def __init__(self, options, work):
        self.options, self.work = options, work
        self.shape = (options.shape or ["1.1b:Q4_K"])[0]
        synthetic(options, self.shape, self.file(0))
        self.size = self.file(0).stat().st_size

    def file(self, rank):
        directory = self.work / str(rank)
        directory.mkdir(exist_ok=True)
        return directory / "model.gguf"

    def copy(self, rank):
        if not self.file(rank).exists():
            shutil.copyfile(self.file(0), self.file(rank))

    def forget(self, rank):
        with open(self.file(rank), "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def read(self, rank):
        done = subprocess.run(["fincore", "-b", "-n", "-r", "-o", "RES", self.file(rank)], capture_output=True, check=True)
        return int(done.stdout)

    def resident(self, process):
        """Of the rank's file, in its memory."""
        try:
            parts = re.findall(r"^Rss:\s+(\d+)", "".join(
                part for part in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", (process / "smaps").read_text()) if "model.gguf" in part),
                re.MULTILINE)
            return sum(map(int, parts)) << 10
        except OSError:
            return 0

    def measure(self, n):
        for rank in range(n):  # all before any is forgotten: to copy is to read rank 0's
            self.copy(rank)
        for rank in range(n):
            self.forget(rank)
        command = [self.options.program, "run", "-m", "./model.gguf", "-t", "1", "-v", "-c", "512", "-n", "8", "--temp", "0", "--raw",
                   "--ignore-eos", TEXT]
        contexts = [[":"] * (rank > 0) + ["-n", "1", "-wdir", str(self.file(rank).parent), *command] for rank in range(n)]
        most, said = {}, []
        with subprocess.Popen([self.options.mpirun, *sum(contexts, [])] if n > 1 else command, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=ENVIRONMENT, text=True, cwd=self.work / "0") as run:
            reader = threading.Thread(target=lambda: said.extend(run.stderr))
            reader.start()
            while run.poll() is None:
                for process in pathlib.Path("/proc").iterdir():
                    if process.name.isdigit() and self.is_rank(process, run.pid):
                        rank = os.path.basename(os.readlink(process / "cwd"))
                        most[rank] = max(most.get(rank, 0), self.resident(process))
                time.sleep(0.1)
            reader.join()
        if run.returncode != 0:
            sys.exit("".join(said))
        told = [line.split("reads ")[1].split(" of the file")[0] for line in said if line.startswith("rank ")]
        return [most[str(rank)] for rank in range(n)], [self.read(rank) for rank in range(n)], told

    def is_rank(self, process, pid):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            return pid in (parent, int(process.name)) and (process / "comm").read_text().strip() == "cria"
        except OSError:
            return False

    def run(self):
        def mib(numbers):
            return ", ".join(f"{number / MIB:.1f}" for number in numbers)
        alone = 0
        print(f"{self.shape}, {self.size / MIB:.0f} MiB, a prompt of 70 tokens and 8 more; MiB of the file, by rank:\n")
        print("| ranks | in memory | read from the disk | told by -v | most in memory / (one process's / N) |\n|---|---|---|---|---|")
        for n in (1, 2, 4):
            held, read, told = self.measure(n)
            alone = alone or max(held)
            print(f"| {n} | {mib(held)} | {mib(read)} | {', '.join(told)} | {max(held) * n / alone:.3f} |", flush=True)
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", choices=["sameness", "memory", []], default=["sameness", "memory"])
    parser.add_argument("--program", default=ROOT / "build/release/tools/cria")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--model", type=pathlib.Path, action="append", default=[], help="one more, whose logits are compared")
    parser.add_argument("--shape", action="append", help=f"sameness: some of {' '.join(SHAPES)}; memory: instead of 1.1b:Q4_K")
    parser.add_argument("--kv-type", action="append", choices=KV_TYPES, help="sameness: not all three")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        steps = {"sameness": Sameness, "memory": Memory}
        return 0 if all([steps[name](options, pathlib.Path(directory)).run() for name in options.steps]) else 1


if __name__ == "__main__":
    sys.exit(main())
