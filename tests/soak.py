#!/usr/bin/env python3
"""Talks with `cria chat` for a long time, as many users would: resets, saves, loads, mistakes.

Checks that the same conversation with the same seed gets the same answers whenever it comes up again, that
memory, threads and descriptors do not grow, and that nothing fails. A line per minute, a summary at the end;
exit code 1 if anything was wrong.

    tests/soak.py [--minutes 30] [--model FILE] [--program build/release/tools/cria] [-t 1]
"""
import argparse
import os
import random
import re
import select
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TALKS = [
    ["What is the capital of France?", "And of Italy?", "Which of them is larger?"],
    ["My name is Ana.", "What is my name?", "Spell it backwards."],
    ["What colour is grass?", "Why?", "And the sky?"],
    ["Tell me a story about a river.", "Go on.", "Go on.", "How does it end?"],
    ["How many days has a week?", "Name them."],
    ["Grüße aus Zürich!", "水は流れる 🦙", "What did I say?"],
    ["\"\"\"one\ntwo\nthree\"\"\"", "How many lines was that?"],
    ["count to ten\\\nslowly", "again"],
]
MISTAKES = [("/fly", "unknown command"), ("/load /no/such/file", "cannot be opened"),
            ("/save", "expected the name of a file"), ("word " * 2000, "no room for this message")]


class Failure(Exception):
    pass


class Chat:
    """One `cria chat` on pipes. Its notes go to stderr; /stats after each message tells that it was answered."""

    def __init__(self, options, seed, more=()):
        command = [options.program, "chat", "-t", str(options.threads), "-c", "384", "-n", "48",
                   "--seed", str(seed), *more]
        if options.model:
            command += ["-m", options.model]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        for stream in (self.process.stdout, self.process.stderr):
            os.set_blocking(stream.fileno(), False)

    def ask(self, line):
        """Sends a line; returns what came on stdout and the notes before those of /stats."""
        self.process.stdin.write(line.encode() + b"\n/stats\n")
        self.process.stdin.flush()
        out, err, idle = b"", b"", 0
        streams = [self.process.stdout, self.process.stderr]
        while not re.search(rb"evaluated in all\n$", err):
            ready = select.select(streams, [], [], 1)[0]
            idle = 0 if ready else idle + 1  # seconds, but for those in which we were stopped ourselves
            if idle > 120:
                raise Failure(f"no answer within 120 s to {line[:60]!r}")
            for stream in ready:
                data = os.read(stream.fileno(), 1 << 16)
                if not data and self.process.poll() is not None:
                    raise Failure(f"ended with {self.process.returncode} at {line[:60]!r}: {err.decode()}")
                if stream is self.process.stdout:
                    out += data
                else:
                    err += data
        while select.select([self.process.stdout], [], [], 0)[0]:  # written before the notes
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                break
            out += data
        return out.decode("utf-8", "backslashreplace"), "\n".join(err.decode().split("\n")[:-2])

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=60)

    def held(self):
        """Resident KiB, threads, descriptors."""
        with open(f"/proc/{self.process.pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        return (int(fields["VmRSS"].split()[0]), int(fields["Threads"]),
                len(os.listdir(f"/proc/{self.process.pid}/fd")))


class Soak:
    def __init__(self, options):
        self.options, self.random = options, random.Random(options.seed)
        self.known = {}  # (route, turn) -> answer
        self.requests = self.failures = self.repeated = 0
        self.directory = tempfile.TemporaryDirectory(prefix="cria-soak-")

    def fail(self, what):
        self.failures += 1
        print("FAILURE:", what, flush=True)

    def ask(self, chat, line, route):
        """A message whose answer must be what it was whenever this route was gone before."""
        self.requests += 1
        answer, notes = chat.ask(line)
        if "error" in notes:
            self.fail(f"{route}: {notes}")
        before = self.known.setdefault(route, answer)
        self.repeated += before is not answer
        if answer != before:
            self.fail(f"{route}: said {before!r}, and now {answer!r}")

    def command(self, chat, line, expected):
        self.requests += 1
        out, notes = chat.ask(line)
        if out or expected not in notes:
            self.fail(f"{line[:60]!r}: expected {expected!r}, got {out!r} and {notes!r}")

    def talk(self, chat, seed):
        """A conversation from its beginning; now and then saved midway, and gone on with from the file."""
        number = self.random.randrange(len(TALKS))
        turns = TALKS[number]
        self.command(chat, "/reset", "forgotten")
        split = self.random.randrange(1, len(turns) + 1) if self.random.random() < 0.4 else None
        for i, line in enumerate(turns[:split]):
            self.ask(chat, line, (seed, number, "whole", i))
        if split is None or split == len(turns):
            return
        path = os.path.join(self.directory.name, f"talk{number}.{split}.json")
        self.command(chat, f"/save {path}", "saved")
        self.command(chat, "/reset", "forgotten")
        self.ask(chat, "hello", (seed, "hello"))
        self.command(chat, f"/load {path}", "loaded")
        for i, line in enumerate(turns[split:], split):
            self.ask(chat, line, (seed, number, "loaded", split, i))

    def visit(self, seed):
        """A short-lived chat with another seed, its session kept in a file for a second one."""
        number = self.random.randrange(len(TALKS))
        path = os.path.join(self.directory.name, f"session{seed}.{number}")
        if os.path.exists(path):
            os.remove(path)
        for i, line in enumerate(TALKS[number][:2]):
            chat = Chat(self.options, seed, ["--session", path, "--temp", "0.9"])
            self.ask(chat, line, (seed, number, "visit", i))
            code = chat.end()
            if code != 0:
                self.fail(f"visit {number}, seed {seed}: exit code {code}")

    def run(self):
        seconds, last_look = 0.0, time.monotonic()
        chat = Chat(self.options, 7)
        self.talk(chat, 7)
        first = minute = None
        while seconds < self.options.minutes * 60:
            self.talk(chat, 7)
            now = time.monotonic()
            seconds += min(now - last_look, 10)  # a longer time was a sleep of this machine's
            last_look = now
            if self.random.random() < 0.05:
                line, expected = self.random.choice(MISTAKES)
                self.command(chat, line, expected)
            if int(seconds / 60) == minute:
                continue
            minute = int(seconds / 60)
            self.visit(minute % 3 + 1)
            held = chat.held()
            if minute == 1 or first is None:  # the first minute fills caches
                first = held
            print(f"{minute:3} min: {self.requests} requests, {self.repeated} answers compared, "
                  f"{self.failures} failures; {held[0]} KiB, {held[1]} threads, {held[2]} descriptors", flush=True)
        last = chat.held()
        if last[0] > first[0] + 2048 or last[1:] != first[1:]:
            self.fail(f"memory (KiB), threads, descriptors grew from {first} to {last}")
        code = chat.end()
        if code not in (0, 1):  # 1: the mistakes
            self.fail(f"exit code {code}")
        print(f"end: {seconds / 60:.1f} minutes, {self.requests} requests, "
              f"{self.repeated} answers compared with earlier ones, {self.failures} failures; "
              f"memory {first[0]} KiB after the first minute, {last[0]} KiB at the end", flush=True)
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/tools/cria"))
    parser.add_argument("--model", default="")
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of what is talked about")
    options = parser.parse_args()
    try:
        return Soak(options).run()
    except (Failure, BrokenPipeError) as failure:
        print("FAILURE:", failure)
        return 1


if __name__ == "__main__":
    sys.exit(main())
