#!/usr/bin/env python3
"""A file of requests whose run is killed again and again: its answers are complete, and those of a run that nobody killed."""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time


def requests(count):
    for i in range(count):
        yield {"prompt": f"The river rises in the hills and item {i % 97}", "raw": i % 2 == 0, "temperature": i % 3 * 0.7,
               "seed": i, "max_tokens": 2 + i % 7}


def answers(path):
    return path.read_bytes() if path.exists() else b""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/release/tools/cria")
    parser.add_argument("--lines", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        source = work / "requests"
        source.write_text("".join(json.dumps(r) + "\n" for r in requests(options.lines)))

        def start(out):
            return subprocess.Popen([options.program, "batch", "-i", source, "-o", out, "--parallel", "16"],
                                    stderr=subprocess.DEVNULL)

        whole, killed = work / "whole", work / "killed"
        began = time.monotonic()
        if start(whole).wait() != 0:
            sys.exit("the run that nobody killed has failed")
        seconds = time.monotonic() - began
        chance = random.Random(1)
        kills = 0
        while kills < options.kills:
            run = start(killed)
            time.sleep(seconds / options.kills * chance.uniform(0.3, 1))
            if run.poll() is not None:
                break
            run.send_signal(signal.SIGKILL)
            run.wait()
            kills += 1
            print(f"killed with {answers(killed).count(10)} of {options.lines} answers")
        if start(killed).wait() != 0:
            sys.exit("the last run has failed")
        if answers(killed) != answers(whole):
            sys.exit("the answers are others")
        print(f"{options.lines} answers, complete and equal after {kills} kills; {seconds:.0f} s without")
        return 0 if kills == options.kills else 1


if __name__ == "__main__":
    sys.exit(main())
