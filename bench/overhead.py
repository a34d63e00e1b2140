#!/usr/bin/env python3
"""Compares generating through C and Python with `cria bench` on the same model, as a Markdown table.

    bench/overhead.py [--model FILE]... [--tokens 256] [--rounds 9] [--threads N]

Each round measures all in turn, for a second or two each: decoding by `cria bench` (which does not
sample), streaming from C (overhead.c), streaming and complete answers in Python. A ratio is the
median over the rounds of the speed divided by that of `cria bench` in the same round.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from statistics import median

SOURCE = pathlib.Path(__file__).resolve().parent.parent
WAYS = ("cria bench", "C", "Python, pieces", "Python, whole")


def in_python(model_file, tokens, repeats, threads):
    """Returns the speeds of streaming and of complete answers; CRIA_LIBRARY names the library."""
    sys.path.insert(0, str(SOURCE / "python"))
    import cria

    how = {"temperature": 0, "max_tokens": tokens, "ignore_eos": True, "speculate": "off"}
    model = cria.Model(model_file, n_ctx=tokens + 64, threads=threads, prefix_cache=False)

    def pieces():
        stream = model.generate([1], stream=True, **how)
        next(stream)
        begin = time.perf_counter()
        for _ in stream:
            pass
        return (tokens - 1) / (time.perf_counter() - begin)

    def whole():
        begin = time.perf_counter()
        answer = model.generate([1], **how)
        if len(answer.tokens) != tokens:
            raise SystemExit("overhead.py: fewer tokens than asked for")
        return tokens / (time.perf_counter() - begin)

    whole()
    print(json.dumps([median(speed() for _ in range(repeats)) for speed in (pieces, whole)]))


def one_round(args, model, program, repeats):
    """Speeds, by WAYS."""

    def run(*command):
        return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, env=args.environment).stdout

    threads = ["-t", args.threads] if args.threads else []
    bench = json.loads(run(args.cria, "bench", "-m", model, "-p", 0, "-n", args.tokens, "-r", repeats, "--json", *threads))
    speed = next(row["tokens_per_second"] for row in bench)
    c = median(map(float, run(program, model, args.tokens, repeats, args.threads).split()))
    spawned = run(sys.executable, __file__, "--model", model, "--spawned", args.tokens, "--repeats", repeats, "--threads", args.threads)
    return [speed, c, *json.loads(spawned)]


def repeats_for(args, model, program):
    """So many answers as take a second or two, at least one."""
    speed = one_round(args, model, program, 1)[0]
    return max(1, min(20, round(1.5 * speed / args.tokens)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="GGUF files (default: the demo model)")
    parser.add_argument("--build", default=SOURCE / "build/release", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="default: physical cores")
    parser.add_argument("--spawned", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    models = args.model or [str(SOURCE / "data/cria-demo-Q8_0.gguf")]
    if args.spawned:
        in_python(models[0], args.spawned, args.repeats, args.threads)
        return
    args.cria = args.build / "tools/cria"
    args.environment = {**os.environ, "CRIA_LIBRARY": str(args.build / "libcria.so.0")}
    with tempfile.TemporaryDirectory() as directory:
        program = pathlib.Path(directory) / "overhead"
        subprocess.run(["cc", "-O2", "-std=c11", f"-I{SOURCE}", SOURCE / "bench/overhead.c", "-o", program, f"-L{args.build}", "-lcria",
                        f"-Wl,-rpath,{args.build}"], check=True)
        print("| model | | tokens/s | ÷ cria bench |\n|---|---|--:|--:|")
        for model in models:
            repeats = repeats_for(args, model, program)
            rounds = [one_round(args, model, program, repeats) for _ in range(args.rounds)]
            for i, way in enumerate(WAYS):
                ratio = median(speeds[i] / speeds[0] for speeds in rounds)
                print(f"| {pathlib.Path(model).stem} | {way} | {median(s[i] for s in rounds):.1f} | {ratio:.3f} |", flush=True)


if __name__ == "__main__":
    main()
