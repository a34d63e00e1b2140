#!/usr/bin/env python3
"""Abuses `cria serve` in many ways, and tells what others notice of it: how long their answers take, and the server's memory.

For each kind of abuse one ordinary client asks on while processes of their own abuse the server. A line per kind: median and 95th
percentile of the client's times, the median's ratio to that of the second before, memory. Exit code 1 if an ordinary request failed, the server ended,
or memory grew by more than --most-growth from the second round to the last.

    tests/abuse.py [--program build/release/tools/cria] [--model FILE] [--seconds 5] [--rounds 3] [--abusers 2] [--only REGEX]

With `--mixed MINUTES` all kinds and ordinary clients with aborts run at once for so long instead, each answer compared with the first of its
kind; for builds with sanitizers.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHAT = "/v1/chat/completions"
USUAL = {"messages": [{"role": "user", "content": "What is the capital of Norway?"}], "temperature": 0, "max_tokens": 16}
POST = b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def post(port, body, path=CHAT, timeout=120):
    """Status and body of the answer; body is JSON text or what becomes it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        connection.request("POST", path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def connect(port, timeout=5):
    connection = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def send(port, data):
    """Bytes, of whose answer only the first are read."""
    with connect(port) as connection:
        connection.sendall(data)
        return connection.recv(4096)


# ---- abuses: each does a little of its kind, again and again

def neighbours(port, _):
    """No abuse: what others notice of ordinary requests, to compare with."""
    post(port, {**USUAL, "temperature": 1, "max_tokens": 40, "ignore_eos": True})


def half_open(port, held):
    """Up to 200 clients that say nothing, or half a head."""
    if len(held) < 200:
        connection = connect(port)
        connection.sendall(random.choice([b"", b"POST /v1", POST, POST + b"Content-Length: 100\r\n\r\n{"]))
        held.append(connection)
    else:
        time.sleep(0.05)


def connects(port, _):
    """A hundred connections that are closed at once."""
    for _ in range(100):
        connect(port).close()
    time.sleep(0.02)


def gigabytes(port, _):
    """Bodies of a gigabyte, declared."""
    send(port, POST + b"Content-Length: 1000000000\r\n\r\n" + b" " * 1000)
    time.sleep(0.002)


def slow_bytes(port, held):
    """A hundred clients that send a byte now and then."""
    if len(held) < 100:
        held.append(connect(port))
        held[-1].sendall(POST + b"X-A: ")
    for connection in held:
        try:
            connection.send(b"a")
        except OSError:
            held.remove(connection)
            break
    time.sleep(0.05)


def heads(port, _):
    """Heads too long, of too many fields, and malformed ones."""
    field = b"".join(b"X-%d: 1\r\n" % i for i in range(3000))
    for data in (b"GET /" + b"a" * 60000, POST + b"X: " + b"a" * 60000, POST + field, POST + b"\0", b"\x16\x03\x01" * 100):
        send(port, data)
    time.sleep(0.005)


def empty_lines(port, _):
    """Nothing but ends of lines."""
    send(port, b"\r\n" * 32768)


def deep_json(port, _):
    """Nesting, and objects of very many members."""
    members = ",".join(f'"{i}":0' for i in range(100000))
    for body in ("[" * 100000, '{"a":' * 100000, '{"messages":' + "[" * 120 + "]" * 120 + "}", "{" + members + "}"):
        post(port, body)
    time.sleep(0.05)


def long_texts(port, _):
    """Prompts of megabytes."""
    text = random.choice(["a", "word ", " ", "水"]) * 1000000
    post(port, {"messages": [{"role": "user", "content": text}]})
    time.sleep(0.05)


def schemas(port, _):
    """Schemas and grammars that are expensive to compile."""
    salt = random.randrange(10**9)
    hostile = [
        {"type": "string", "minLength": 10**6 + salt}, {"type": "string", "pattern": f"(a|b)*a(a|b){{30}}{salt}"},
        {"type": "string", "pattern": f"((a{{1,100}}){{1,100}}){{1,100}}{salt}"}, {"enum": [f"{salt}x{i}" for i in range(10000)]},
        {"oneOf": [{"type": "integer", "minimum": salt + 10 * i, "maximum": salt + 10 * i + 9} for i in range(500)]},
        {"type": "object", "properties": {f"p{i}": {"type": "string", "maxLength": 100} for i in range(3000)}, "title": str(salt)},
        {"type": "array", "items": {"type": "string", "maxLength": 1000}, "maxItems": 10**6 + salt},
    ]
    form = {"type": "json_schema", "json_schema": {"name": "hostile", "schema": random.choice(hostile)}}
    post(port, {**USUAL, "max_tokens": 1, "response_format": form})


def grammars(port, _):
    """Grammars that their texts can be read by in very many ways."""
    salt = random.randrange(10**9)
    rule = random.choice(['"x" | "(" root ")" | "x" root | "x" "x" root | "x" root "x"', '("a"* "b"?)* ("a"? "b"?)* "a"* "b"*',
                          '"x" root "y" | "x" root "z" | "x"'])
    post(port, {**USUAL, "temperature": 1, "max_tokens": 40, "ignore_eos": True, "grammar": f"root ::= {rule}\n# {salt}"})


def many_answers(port, _):
    """Sixteen answers to each of 2048 prompts, with all that each may carry, by clients that leave."""
    body = json.dumps({"prompt": [[1]] * 2048, "n": 16, "max_tokens": 1, "stop": [f"{i}" + "x" * 1000 for i in range(16)],
                       "logit_bias": {str(i): -1 for i in range(1000)}}).encode()
    with connect(port) as connection:
        connection.sendall(POST.replace(CHAT.encode(), b"/v1/completions") + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.1)


def unread(port, held):
    """Long answers that nobody reads."""
    if len(held) >= 200:
        return time.sleep(0.05)
    body = json.dumps({"content": "¤" * 100000, "with_pieces": True}, ensure_ascii=False).encode()
    held.append(connect(port))
    held[-1].sendall(POST.replace(CHAT.encode(), b"/tokenize") + b"Content-Length: %d\r\n\r\n" % len(body) + body)


KINDS = {kind.__name__.replace("_", "-"): kind
         for kind in (neighbours, half_open, connects, gigabytes, slow_bytes, heads, empty_lines, deep_json, long_texts, schemas, grammars,
                      many_answers, unread)}


def abuse(kind, port, end):
    """Runs in a process of its own. What goes wrong for abusers is their own affair."""
    held = []
    while time.time() < end:
        try:
            kind(port, held)
        except (OSError, http.client.HTTPException):
            time.sleep(0.01)
    for connection in held:
        connection.close()


# ---- the server and its ordinary clients

class Server:
    def __init__(self, options):
        self.log = tempfile.NamedTemporaryFile("w+b", suffix=".log", delete=False)
        # A small cache of prefixes is soon full: what grows after that is none.
        command = [options.program, "serve", "--port", "0", "--cache-mib", "32"] + (["-m", options.model] if options.model else [])
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.port = None
        for _ in range(600):
            found = re.search(r"http://127\.0\.0\.1:(\d+)", self.said())
            if found:
                self.port = int(found[1])
                return
            time.sleep(0.1)
        sys.exit("the server does not start: " + self.said()[:2000])

    def said(self):
        with open(self.log.name, "rb") as log:
            return log.read().decode("utf-8", "replace")

    def memory(self):
        """Resident, in MiB."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


def ask_on(port, seconds, expected):
    """Times of ordinary requests, one after the other; a failure for what is not as expected."""
    times, failures, end = [], 0, time.time() + seconds
    while time.time() < end or len(times) < 5:
        begin = time.perf_counter()
        try:
            status, body = post(port, USUAL)
            right = status == 200 and json.loads(body)["choices"] == expected
        except (OSError, http.client.HTTPException):
            right = False
        times.append(time.perf_counter() - begin)
        failures += not right
        time.sleep(0.01)
    return times, failures


def figures(times):
    return statistics.median(times), sorted(times)[int(0.95 * (len(times) - 1))]


def by_kind(server, options, expected):
    print(f"memory {server.memory():.0f} MiB", flush=True)
    wrong, second = 0, None
    for turn in range(options.rounds):
        for name, kind in KINDS.items():
            if not re.search(options.only, name):
                continue
            usual, _ = figures(ask_on(server.port, 1, expected)[0])
            end = time.time() + options.seconds
            abusers = [multiprocessing.Process(target=abuse, args=(kind, server.port, end)) for _ in range(options.abusers)]
            for abuser in abusers:
                abuser.start()
            time.sleep(0.3)
            times, failures = ask_on(server.port, options.seconds - 0.3, expected)
            for abuser in abusers:
                abuser.join()
            median, late = figures(times)
            wrong += failures
            print(f"{name:12} median {median * 1000:6.1f} ms ({median / usual:.2f} of the {usual * 1000:.1f} ms before), 95th {late * 1000:6.1f} ms, "
                  f"{len(times)} requests, {failures} failed, memory {server.memory():.0f} MiB", flush=True)
        if turn == 1:
            second = server.memory()
    again, _ = figures(ask_on(server.port, options.seconds, expected)[0])
    growth = server.memory() - second if second else 0
    print(f"{'afterwards':12} median {again * 1000:6.1f} ms, memory {server.memory():.0f} MiB, growth since the second round {growth:.0f} MiB")
    return wrong + (growth > options.most_growth)


def mixed(server, options):
    """All at once. Answers must be the first ones again."""
    requests = [USUAL, {**USUAL, "temperature": 1, "seed": 5, "max_tokens": 60, "ignore_eos": True},
                {**USUAL, "temperature": 1.2, "seed": 6, "n": 3, "max_tokens": 30, "logprobs": True, "top_logprobs": 2},
                {**USUAL, "temperature": 1, "seed": 7, "max_tokens": 80, "response_format": {"type": "json_object"}}]
    expected = [json.loads(post(server.port, body)[1])["choices"] for body in requests]
    end = time.time() + 60 * options.mixed
    wrong, asked, aborted = [], [0], [0]

    def ordinary(seed):
        draw = random.Random(seed)
        while time.time() < end:
            which = draw.randrange(len(requests))
            try:
                status, body = post(server.port, requests[which], timeout=600)
            except OSError as error:
                wrong.append(f"request {which}: {error}")
                continue
            if status != 200 or json.loads(body)["choices"] != expected[which]:
                wrong.append(f"request {which}: {status} {body[:300]}")
            asked[0] += 1

    def aborting(seed):
        draw = random.Random(seed)
        body = json.dumps({**USUAL, "max_tokens": 400, "ignore_eos": True, "temperature": 1, "stream": draw.random() < 0.7}).encode()
        while time.time() < end:
            try:
                with connect(server.port) as connection:
                    connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                    time.sleep(draw.random() * 0.5)
                aborted[0] += 1
            except OSError:
                time.sleep(0.05)

    abusers = [multiprocessing.Process(target=abuse, args=(kind, server.port, end)) for name, kind in KINDS.items()
               if re.search(options.only, name)]
    clients = [threading.Thread(target=work, args=(seed,)) for work in (ordinary, aborting) for seed in range(4)]
    for one in abusers + clients:
        one.start()
    for one in abusers + clients:
        one.join()
    for line in wrong[:20]:
        print(line)
    print(f"mixed: {options.mixed:g} minutes, {asked[0]} answers, {len(wrong)} of them wrong, {aborted[0]} aborted, memory {server.memory():.0f} MiB")
    return len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/tools/cria"))
    parser.add_argument("--model")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--abusers", type=int, default=2, help="processes of each kind")
    parser.add_argument("--only", default="")
    parser.add_argument("--mixed", type=float, metavar="MINUTES")
    parser.add_argument("--most-growth", type=float, default=16, metavar="MIB")
    options = parser.parse_args()
    server = Server(options)
    try:
        status, body = post(server.port, USUAL)
        assert status == 200, body
        wrong = mixed(server, options) if options.mixed else by_kind(server, options, json.loads(body)["choices"])
    finally:
        code = server.stop()
    said = [line for line in server.said().splitlines() if re.search(r"Sanitizer|runtime error|terminate", line)]
    print("\n".join(said[:40]) if said else f"the server ended with {code}")
    os.unlink(server.log.name)
    return 1 if wrong or code != 0 or said else 0


if __name__ == "__main__":
    sys.exit(main())
