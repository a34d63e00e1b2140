#!/usr/bin/env python3
"""Measures tokens per second of cria and other engines, each with its best options, on the same files.

    bench/compare.py --peer ik_llama.cpp=/path/to/build/bin --peer llama.cpp=/path/to/build/bin --machine "AMD EPYC (Zen 4)"
    bench/compare.py … --types Q4_K,Q8_0 --columns 8,16,32,64,128,@4096 --rounds 1      a part

Columns: N is a prompt of N tokens, tg decoding from an empty cache, @D a prompt of D tokens and
decoding after it. cria writes the file of each type; all programs measure it in turn, round by round.
Decoding and prompts of up to 32 tokens take less than a second, so they are measured several times
per round; the medians count.

Peers run with and without repacked weights and fused attention and, at depth, with each cache type
(as does cria). Each cell takes the choice with the fastest median. A choice that is always 20 %
slower than its column's best peer is omitted in later rounds. Peers start every second turn.

Complete rounds are kept in --runs. A call measures the missing rounds of this machine, these columns
and this commit (the last that changed kernels, graph or execution), so it can be interrupted. Then
the medians go to --speeds; a ratio is the median of the rounds' ratios. The program "figures" makes
tables and pictures from that file.
"""
import argparse
import datetime
import os
import re
import subprocess
from statistics import median

from engines import Cria, Peer, synthetic_file

ALL_TYPES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS IQ3_S IQ3_XXS IQ2_S IQ2_XS IQ2_XXS "
             "IQ1_S IQ1_M TQ1_0 TQ2_0 MXFP4 F16 BF16 F32").split()
RUN = "machine commit date model columns round engine choice column tokens_per_second share".split()
SPEED = "machine date commit model column cria peer peer_name peer_choice ratio share rounds".split()
SHORT, REPETITIONS = 32, 2  # prompts of up to SHORT tokens are repeated within a round
HERE = os.path.dirname(os.path.abspath(__file__))


def read(path, names):
    """Returns the rows of a file as dictionaries. Cells contain no commas."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        lines = file.read().splitlines()
    if not lines or lines[0].split(",") != names:
        raise SystemExit(f"{path}: expected the columns {','.join(names)}")
    return [dict(zip(names, line.split(","))) for line in lines[1:]]


def write(path, names, rows):
    with open(path + ".new", "w") as file:
        for row in [dict(zip(names, names)), *rows]:
            file.write(",".join(str(row[name]) for name in names) + "\n")
    os.replace(path + ".new", path)


def groups(columns, turns):
    """[(name, prompts, whether to decode, depth, turns, repetitions)]: what one run of a program measures."""
    depths = [int(column[1:]) for column in columns if column.startswith("@")]
    prompts = [int(column) for column in columns if column.isdigit()]
    short, long = [n for n in prompts if n <= SHORT], [n for n in prompts if n > SHORT]
    decodes = "tg" in columns
    found = [(long, False, 0, 1, 1)] if long else []
    found += [(short, decodes, 0, turns, REPETITIONS)] if short or decodes else []
    named = [(" ".join([*map(str, group[0]), *(["tg"] if group[1] else [])]), *group) for group in found]
    return named + [(f"@{depth}", [], True, depth, 1, 1) for depth in depths]


class Rounds:
    """The complete rounds of one model and group of columns that are known so far."""

    def __init__(self, runs, key):
        self.key = key
        self.rounds = {}
        for run in runs:
            if all(run[name] == value for name, value in key.items()):
                self.rounds.setdefault(int(run["round"]), []).append(run)

    def sits_out(self, engine, choice):
        """Whether a peer's choice was far behind in some round, in every column."""
        for runs in self.rounds.values():
            own = [run for run in runs if (run["engine"], run["choice"]) == (engine, choice)]
            best = {column: max(float(run["tokens_per_second"]) for run in runs if run["column"] == column and run["engine"] != "cria")
                    for column in {run["column"] for run in own}}
            if all(float(run["tokens_per_second"]) < 0.8 * best[run["column"]] for run in own):
                return True
        return False

    def measure(self, args, engines, model, group):
        """One more round; its rows."""
        _, prompts, decodes, depth, turns, repetitions = group
        done = {}  # {(engine, choice, column): [(speed, share)]}
        for turn in range(turns):
            for engine in engines if (len(self.rounds) + turn) % 2 == 1 else engines[::-1]:
                for choice in engine.choices(depth):
                    if engine.name != "cria" and (not re.search(args.choices, choice) or self.sits_out(engine.name, choice)):
                        continue
                    speeds = engine.speeds(choice, model, prompts, args.n if decodes else 0, depth, repetitions, args.t, args.through)
                    for column, speed in speeds.items():
                        done.setdefault((engine.name, choice, column), []).append(speed)
        rows = []
        for (engine, choice, column), speeds in done.items():
            shares = [share for _, share in speeds if share is not None]
            rows.append(self.key | {"round": len(self.rounds) + 1, "date": datetime.date.today().isoformat(), "engine": engine,
                                    "choice": choice, "column": column, "tokens_per_second": f"{median(speed for speed, _ in speeds):.2f}",
                                    "share": f"{median(shares):.3f}" if shares else ""})
        self.rounds[len(self.rounds) + 1] = [{name: str(value) for name, value in row.items()} for row in rows]
        return rows

    def speeds(self):
        """The medians, a row of SPEED for each column."""
        found = {}  # {(column, engine, choice): {round: run}}
        for number, runs in self.rounds.items():
            for run in runs:
                found.setdefault((run["column"], run["engine"], run["choice"]), {})[number] = run
        value = lambda run: float(run["tokens_per_second"])  # noqa: E731

        def best(column, ours):
            """The choice with the best median of those that took part in every round."""
            whole = [runs for (of, engine, _), runs in found.items()
                     if of == column and (engine == "cria") == ours and len(runs) == len(self.rounds)]
            return max(whole, key=lambda runs: median(map(value, runs.values())), default={})

        out = []
        for column in dict.fromkeys(column for column, engine, _ in found if engine == "cria"):
            cria, peer = best(column, True), best(column, False)
            row = {"machine": self.key["machine"], "commit": self.key["commit"], "model": self.key["model"], "column": column,
                   "date": max(run["date"] for run in cria.values()), "cria": f"{median(map(value, cria.values())):.1f}",
                   "rounds": len(cria), "share": f"{median(float(run['share']) for run in cria.values()):.2f}"
                   if all(run["share"] for run in cria.values()) else "",
                   "peer": "", "peer_name": "", "peer_choice": "", "ratio": ""}
            if peer:
                row["peer"] = f"{median(map(value, peer.values())):.1f}"
                row["peer_name"], row["peer_choice"] = (next(iter(peer.values()))[name] for name in ("engine", "choice"))
                row["ratio"] = f"{median(value(cria[i]) / value(peer[i]) for i in cria):.2f}"
            out.append(row)
        return out


def replace_speeds(path, rows):
    """The rows take the places of those of the same machine, model and column."""
    cell = lambda row: (row["machine"], row["model"], row["column"])  # noqa: E731
    new = {cell(row): row for row in rows}
    old = read(path, SPEED)
    kept = [new.pop(cell(row), row) for row in old]
    write(path, SPEED, kept + list(new.values()))


def measured_commit():
    """The last commit that can have changed a speed."""
    done = subprocess.run(["git", "-C", HERE, "log", "-1", "--format=%h", "--", "../kernels", "../engine/execute", "../engine/graph"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() or "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cria", default="build/release/tools/cria")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=DIRECTORY", help="of llama-bench and llama-batched-bench")
    parser.add_argument("--machine", required=True, metavar="NAME", help="the processor, as the tables call it")
    parser.add_argument("--commit", default=measured_commit())
    parser.add_argument("--shape", default="1.1b")
    parser.add_argument("--types", default=",".join(ALL_TYPES))
    parser.add_argument("--models", help="SHAPE:TYPE,… instead of --shape and --types")
    parser.add_argument("--columns", default="512,tg", help="as above, for example 8,16,512,tg,@4096")
    parser.add_argument("--choices", default="", metavar="REGEX", help="peers run with these of their choices only, for example '-fa 1|-ctk'")
    parser.add_argument("-n", default=32, type=int, help="tokens decoded")
    parser.add_argument("-t", default=2, type=int, help="threads")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3, help="of what is short, within a round (default: %(default)s)")
    parser.add_argument("--through", default="", metavar="COMMAND", help="runs each program, for example one that stops all others")
    parser.add_argument("--runs", default="build/compare.csv", help="every single figure (default: %(default)s)")
    parser.add_argument("--speeds", default=os.path.join(HERE, "speeds.csv"), help="the medians (default: %(default)s)")
    args = parser.parse_args()
    engines = [Cria(args.cria), *(Peer(*peer.split("=", 1)) for peer in args.peer)]
    models = args.models.split(",") if args.models else [f"{args.shape}:{dtype}" for dtype in args.types.split(",")]
    for spec in models:
        pending = []
        for group in groups(args.columns.split(","), args.turns):
            key = {"machine": args.machine.replace(",", ";"), "commit": args.commit, "model": spec, "columns": group[0]}
            pending.append((group, Rounds(read(args.runs, RUN), key)))
        if any(len(rounds.rounds) < args.rounds for _, rounds in pending):
            with synthetic_file(args.cria, spec) as model:
                for i in range(args.rounds):
                    for group, rounds in pending:
                        if len(rounds.rounds) <= i:
                            write(args.runs, RUN, read(args.runs, RUN) + rounds.measure(args, engines, model, group))
        speeds = [row for _, rounds in pending for row in rounds.speeds()]
        replace_speeds(args.speeds, speeds)
        for row in speeds:
            print(f"{row['model']} {row['column']}: {row['cria']}, {row['peer']} ({row['peer_name']} {row['peer_choice']}), {row['ratio']}",
                  flush=True)


if __name__ == "__main__":
    main()
