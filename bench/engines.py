"""Runs cria and other engines on one file, for compare.py and parallel.py.

A peer is a directory with the llama-bench and llama-batched-bench of an engine; it is run with every choice it has (Peer.choices).
"""
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile


def run(command, through="", both=False, directory=None):
    """Returns the output of a command (both: with stderr), or None if it fails, as engines do for
    unknown types. through: a command prefix; directory: the working directory."""
    done = subprocess.run([*shlex.split(through), *command], stdin=subprocess.DEVNULL, cwd=directory, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT if both else subprocess.PIPE, text=True, errors="replace")
    if done.returncode != 0:
        print(f"{shlex.join(command)}: exit {done.returncode}: {(done.stdout if both else done.stderr).strip()[-200:]}", file=sys.stderr)
        return None
    return done.stdout


def run_json(command, through=""):
    text = run(command, through)
    return None if text is None else json.loads(text)


@contextlib.contextmanager
def synthetic_file(cria, spec):
    """Yields the path of a file of random weights, SHAPE:TYPE, and deletes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, spec.replace(":", "-") + ".gguf")
        subprocess.run([cria, "bench", "--synthetic", spec, "--write", path, "-p", "0", "-n", "1", "-r", "1"],
                       check=True, stdout=subprocess.DEVNULL)
        os.sync()  # else the first program runs while the disk is busy
        yield path


def batched_bench(program, model, prompt, decode, sequences, threads, options=(), shared=False, through=""):
    """{sequences: (prompt, decode)} in tokens per second, by a llama-batched-bench; empty where it fails."""
    most = max(sequences)
    context = (1 if shared else most) * prompt + most * decode + 256
    text = run([os.path.abspath(program), "-m", model, "-c", str(context), "-b", "2048", "-ub", "512", "-npp", str(prompt), "-ntg", str(decode),
                "-npl", ",".join(map(str, sequences)), "-t", str(threads), *(["-pps"] if shared else []), *options], through, both=True,
               directory=os.path.dirname(model))  # where some leave a log
    results = {}
    for line in (text or "").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 10 and all(re.fullmatch(r"[0-9.]+", cell) for cell in cells):
            results[int(cells[2])] = (float(cells[5]), float(cells[7]))
    return results


def cria_sequences(cria, model, prompt, decode, sequences, threads, options=(), through=""):
    """As batched_bench."""
    rows = run_json([cria, "bench", "-m", model, "--parallel", ",".join(map(str, sequences)), "-p", str(prompt), "-n", str(decode),
                     "-t", str(threads), "-r", "1", "--json", *options], through)
    if rows is None:
        sys.exit("cria failed")
    return {int(row["sequences"]): (row["prompt_tokens_per_second"], row["decode_tokens_per_second"]) for row in rows}


class Peer:
    """An engine with llama.cpp's programs."""

    def __init__(self, name, directory):
        self.name, self.directory = name, directory
        done = subprocess.run([self.program("llama-bench"), "-h"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.repacks = "-rtr" in done.stdout

    def program(self, name):
        return os.path.join(self.directory, name)

    def choices(self, depth):
        """Its options, each as a text: weights repacked at the start or not, attention fused or not; at depth also the cache's type
        (one of eight bits needs fused attention)."""
        repack = ["-rtr 0", "-rtr 1"] if self.repacks else [""]
        rest = ["-ctk f16 -ctv f16", "-ctk q8_0 -ctv q8_0"] if depth else ["-fa 0", "-fa 1"]
        return [f"{a} {b}".strip() for a in repack for b in rest]

    def speeds(self, choice, model, prompts, decode, depth, repetitions, threads, through):
        """{column: (tokens per second, None)} of one run, means of the repetitions; empty where it fails."""
        if depth:
            options = choice.replace("-rtr 0", "").replace("-rtr 1", "-rtr").split() + ["-fa"] + (["on"] if self.repacks else [])
            both = batched_bench(self.program("llama-batched-bench"), model, depth, decode, [1], threads, options, through=through)
            return {} if 1 not in both else {f"pp{depth}": (both[1][0], None), f"tg@{depth}": (both[1][1], None)}
        rows = run_json([self.program("llama-bench"), "-m", model, "-p", ",".join(map(str, prompts)) or "0", "-n", str(decode), "-t",
                         str(threads), "-r", str(repetitions), "-o", "json", *choice.split()], through) or []
        return {f"pp{row['n_prompt']}" if row["n_prompt"] else "tg": (row["avg_ts"], None) for row in rows}


class Cria:
    """This engine, run likewise."""
    name = "cria"

    def __init__(self, program):
        self.program = program

    def choices(self, depth):
        return ["--kv-type f16", "--kv-type q8_0"] if depth else [""]

    def speeds(self, choice, model, prompts, decode, depth, repetitions, threads, through):
        """{column: (tokens per second, share of what the machine allows, None where that is not measured)}."""
        if depth:
            prompt, tokens = cria_sequences(self.program, model, depth, decode, [1], threads, choice.split(), through)[1]
            return {f"pp{depth}": (prompt, None), f"tg@{depth}": (tokens, None)}
        rows = run_json([self.program, "bench", "-m", model, "-p", ",".join(map(str, prompts)) or "0", "-n", str(decode), "-t",
                         str(threads), "-r", str(repetitions), "--roofline", "--json", *choice.split()], through)
        if rows is None:
            sys.exit("cria failed")
        return {row["test"] if row["test"].startswith("pp") else "tg": (row["tokens_per_second"], row["roofline_fraction"])
                for row in rows}
