#!/usr/bin/env python3
"""Compares engines with several sequences at once, on the same synthetic files, as a Markdown table.

    bench/parallel.py --peer llama.cpp=/path/to/llama-batched-bench --peer ik_llama.cpp=/path/to/llama-batched-bench [--types Q4_K,Q8_0]

A peer is any program with llama-batched-bench's arguments and table. cria writes the file of each
type; all programs measure decoding in turn, --rounds times. A ratio is the median over the rounds of
cria's speed divided by the best peer's. --shared: all sequences continue one prompt.
"""
import argparse
from statistics import median

from engines import batched_bench, cria_sequences, synthetic_file


def cells(rounds, n, which):
    """Returns cria's speed, the best peer's, the ratio. which: 0: prompts, 1: decoding."""
    speed = median(cria[n][which] for cria, _ in rounds)
    bests = []
    for _, peers in rounds:
        speeds = [(result[n][which], name) for name, result in peers.items() if n in result]
        if not speeds:
            return [f"{speed:.1f}", "–", "–"]
        bests.append(max(speeds))
    ratio = median(cria[n][which] / peer for (cria, _), (peer, _) in zip(rounds, bests))
    names = [name for _, name in bests]
    return [f"{speed:.1f}", f"{median(peer for peer, _ in bests):.1f} ({max(set(names), key=names.count)})", f"**{ratio:.2f}**"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cria", default="build/release/tools/cria")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PROGRAM")
    parser.add_argument("--shape", default="1.1b")
    parser.add_argument("--types", default="Q4_K,Q8_0,IQ2_XS")
    parser.add_argument("--sequences", default="1,2,4,8,16,32")
    parser.add_argument("-p", default=512, type=int)
    parser.add_argument("-n", default=128, type=int)
    parser.add_argument("-t", default=2, type=int)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--prompts", action="store_true", help="a table of the prompts' speed, too")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    peers = dict(peer.split("=", 1) for peer in args.peer)
    sequences = [int(n) for n in args.sequences.split(",")]
    how = (args.p, args.n, sequences, args.t)
    print("| type | what | sequences | cria | best peer | ratio |\n|---|---|--:|--:|--:|--:|", flush=True)
    for dtype in args.types.split(","):
        with synthetic_file(args.cria, f"{args.shape}:{dtype}") as model:
            rounds = [(cria_sequences(args.cria, model, *how, options=["--shared-prompt"] if args.shared else []),
                       {name: batched_bench(program, model, *how, shared=args.shared) for name, program in peers.items()})
                      for _ in range(args.rounds)]
        for which, what in enumerate(("prompt", "decode")):
            for n in sequences:
                if which == 1 or args.prompts:
                    print("| " + " | ".join([dtype, what, str(n), *cells(rounds, n, which)]) + " |", flush=True)


if __name__ == "__main__":
    main()
