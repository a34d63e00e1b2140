#!/usr/bin/env python3
"""Tokens per second of cria and of other engines on the same synthetic files, in one run, as a Markdown table.

    bench/compare.py --peer llama.cpp=/path/to/llama-bench --peer ik_llama.cpp=/path/to/llama-bench [--types Q4_K,Q6_K] [-t 2]

A peer is any program that takes llama-bench's arguments (-m -p -n -t -r -o json), with arguments of its own where wanted:
--peer "ik_llama.cpp rtr=/path/to/llama-bench -fmoe 1 -rtr 1". --models moe:Q4_K,qwen3-4b:Q4_K measures these shapes in these types. Each file is written by cria, measured by
everybody in turn, --rounds times, and deleted: a machine that is slow for a while is slow for all. A ratio is the median over the rounds
of cria over the best peer of the round; speeds and shares (of what `cria bench --roofline` measures beside them) are medians, too.
A peer that is left far behind by another in the first round, in prompts and decoding, sits out the rest.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from statistics import median

ALL_TYPES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS IQ3_S IQ3_XXS IQ2_S IQ2_XS IQ2_XXS "
             "IQ1_S IQ1_M TQ1_0 TQ2_0 F16 BF16 F32")


def run_json(command):
    """The JSON a command prints, or None where it fails (an engine that does not know a type)."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(f"{command[0]}: exit {done.returncode}: {done.stderr.strip()[-200:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def measure_cria(cria, model, options):
    rows = run_json([cria, "bench", "-m", model, "--roofline", "--json", *options])
    if rows is None:
        sys.exit("cria failed")
    return {row["test"][:2]: row for row in rows}


def measure_peer(peer, model, options):
    rows = run_json([*shlex.split(peer), "-m", model, "-o", "json", *options]) or []
    return {"pp" if row["n_prompt"] else "tg": row["avg_ts"] for row in rows}


def best(results, test):
    """(speed, name) of the fastest peer, or (None, "")."""
    speeds = [(result[test], name) for name, result in results.items() if test in result]
    return max(speeds) if speeds else (None, "")


def contenders(peers, results):
    """The peers that reach two thirds of the best one somewhere."""
    def contends(name):
        return any(results[name].get(test, 0) > 0.67 * (best(results, test)[0] or 0) for test in ("pp", "tg"))
    return {name: program for name, program in peers.items() if contends(name)}


def measure(cria, peers, model, options, rounds):
    """A list of (cria's rows, the peers' speeds), one for each round."""
    results = []
    for _ in range(rounds):
        results.append((measure_cria(cria, model, options),
                        {name: measure_peer(program, model, options) for name, program in peers.items()}))
        peers = contenders(peers, results[-1][1])
    return results


def cells(test, rounds):
    speed = median(cria[test]["tokens_per_second"] for cria, _ in rounds)
    share = median(cria[test]["roofline_fraction"] for cria, _ in rounds)
    bests = [best(peers, test) for _, peers in rounds]
    if any(peer is None for peer, _ in bests):
        return [f"{speed:.1f}", "–", "–", f"{100 * share:.0f} %"]
    ratio = median(cria[test]["tokens_per_second"] / peer for (cria, _), (peer, _) in zip(rounds, bests))
    names = [name for _, name in bests]
    peer = f"{median(peer for peer, _ in bests):.1f} ({max(set(names), key=names.count)})"
    return [f"{speed:.1f}", peer, f"**{ratio:.2f}**", f"{100 * share:.0f} %"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cria", default="build/release/tools/cria")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PROGRAM")
    parser.add_argument("--shape", default="1.1b")
    parser.add_argument("--types", default=ALL_TYPES.replace(" ", ","))
    parser.add_argument("--models", help="SHAPE:TYPE,… instead of --shape and --types")
    parser.add_argument("-p", default="512")
    parser.add_argument("-n", default="64")
    parser.add_argument("-t", default="2")
    parser.add_argument("-r", default="1", help="repetitions in a round")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    peers = dict(peer.split("=", 1) for peer in args.peer)
    options = ["-p", args.p, "-n", args.n, "-t", args.t, "-r", args.r]
    models = args.models.split(",") if args.models else [f"{args.shape}:{dtype}" for dtype in args.types.split(",")]
    print(f"| {'model' if args.models else 'type'} | pp{args.p} cria | best peer | ratio | of int8 peak | tg{args.n} cria | best peer | ratio | of read rate |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for name in models:
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, name.replace(":", "-") + ".gguf")
            subprocess.run([args.cria, "bench", "--synthetic", name, "--write", model,
                            "-p", "0", "-n", "1", "-r", "1"], check=True, stdout=subprocess.DEVNULL)
            rounds = measure(args.cria, peers, model, options, args.rounds)
        print("| " + " | ".join([name if args.models else name.split(":")[1], *cells("pp", rounds), *cells("tg", rounds)]) + " |", flush=True)


if __name__ == "__main__":
    main()
