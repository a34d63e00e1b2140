#!/usr/bin/env python3
"""Long tests of the program; .ci/long runs them. Each exits with 1 on failure.

    tests/endurance.py soak [--minutes 30]   a long `cria chat`: equal answers, constant memory
    tests/endurance.py abuse [--only REGEX]  `cria serve` under abuse: answers, memory
    tests/endurance.py abuse --mixed 10      all kinds of abuse at once, for builds with sanitizers
    tests/endurance.py kills                 `cria batch`, killed and resumed: equal answers
    tests/endurance.py calibration           `cria quantize --calibrate`, killed and resumed: equal bytes
    tests/endurance.py ranks                 every division of the work over MPI: equal bytes
    tests/endurance.py isas                  every instruction set: equal perplexity

All take --program (default build/release/tools/cria) and --model (default: the demo model).
"""
import argparse
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEMO = ROOT / "data/cria-demo-Q8_0.gguf"


# ---- soak: a conversation in which talks come again with the same seed

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
MISTAKES = ["/fly", "/load /no/such/file", "/save", "word " * 2000]


class Failure(Exception):
    pass


class Chat:
    """One `cria chat` on pipes. /stats after each message marks the end of its answer."""

    def __init__(self, options, seed, more=()):
        self.process = subprocess.Popen(
            [options.program, "chat", "-m", options.model, "-t", "1", "-c", "384", "-n", "48",
             "--seed", str(seed), *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for stream in (self.process.stdout, self.process.stderr):
            os.set_blocking(stream.fileno(), False)

    def ask(self, line):
        """Sends a line; returns its answer on stdout and its notes on stderr."""
        self.process.stdin.write(line.encode() + b"\n/stats\n")
        self.process.stdin.flush()
        out, err, idle = b"", b"", 0
        streams = [self.process.stdout, self.process.stderr]
        while not re.search(rb"; sampling: [^\n]*\n$", err):
            ready = select.select(streams, [], [], 1)[0]
            idle = 0 if ready else idle + 1  # seconds, without those in which this process slept
            if idle > 120:
                raise Failure(f"no answer within 120 s to {line[:60]!r}: {err.decode()}")
            for stream in ready:
                data = os.read(stream.fileno(), 1 << 16)
                if not data and self.process.poll() is not None:
                    raise Failure(f"exit code {self.process.returncode} at {line[:60]!r}: "
                                  + err.decode())
                if stream is self.process.stdout:
                    out += data
                else:
                    err += data
        while select.select([self.process.stdout], [], [], 0)[0]:  # was written before the notes
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                break
            out += data
        return out.decode("utf-8", "backslashreplace"), "\n".join(err.decode().split("\n")[:-2])

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=60)

    def resources(self):
        """Returns resident KiB, threads and descriptors."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            fields = dict(line.split(":", 1) for line in status)
        return (int(fields["VmRSS"].split()[0]), int(fields["Threads"]),
                len(os.listdir(f"/proc/{self.process.pid}/fd")))


class Soak:
    def __init__(self, options, directory):
        self.options, self.directory, self.random = options, directory, random.Random(1)
        self.known = {}  # (route, turn) -> answer
        self.requests = self.failures = self.repeated = 0

    def fail(self, what):
        self.failures += 1
        print("FAILURE:", what, flush=True)

    def ask(self, chat, line, route):
        """Sends a message; its answer must equal the earlier ones on the same route."""
        self.requests += 1
        answer, notes = chat.ask(line)
        if "error" in notes:
            self.fail(f"{route}: {notes}")
        before = self.known.setdefault(route, answer)
        self.repeated += before is not answer
        if answer != before:
            self.fail(f"{route}: expected {before!r}, got {answer!r}")

    def command(self, chat, line, is_error=False):
        self.requests += 1
        out, notes = chat.ask(line)
        if out or ("error" in notes) != is_error:
            self.fail(f"{line[:60]!r}: {out!r}, {notes!r}")

    def talk(self, chat, seed):
        """Holds a conversation; sometimes saves, resets and loads it midway."""
        number = self.random.randrange(len(TALKS))
        turns = TALKS[number]
        self.command(chat, "/reset")
        split = self.random.randrange(1, len(turns) + 1) if self.random.random() < 0.4 else None
        for i, line in enumerate(turns[:split]):
            self.ask(chat, line, (seed, number, "whole", i))
        if split is None or split == len(turns):
            return
        path = self.directory / f"talk{number}.{split}.json"
        self.command(chat, f"/save {path}")
        self.command(chat, "/reset")
        self.ask(chat, "hello", (seed, "hello"))
        self.command(chat, f"/load {path}")
        for i, line in enumerate(turns[split:], split):
            self.ask(chat, line, (seed, number, "loaded", split, i))

    def visit(self, seed):
        """Runs a short chat twice; the second one continues the session file of the first."""
        number = self.random.randrange(len(TALKS))
        path = self.directory / f"session{seed}.{number}"
        path.unlink(missing_ok=True)
        for i, line in enumerate(TALKS[number][:2]):
            chat = Chat(self.options, seed, ["--session", path, "--temp", "0.9"])
            self.ask(chat, line, (seed, number, "visit", i))
            code = chat.end()
            if code != 0:
                self.fail(f"visit {number}, seed {seed}: exit code {code}")

    def run(self):
        seconds, last_look = 0.0, time.monotonic()
        chat = Chat(self.options, 7)
        first = minute = None
        while seconds < self.options.minutes * 60:
            self.talk(chat, 7)
            now = time.monotonic()
            seconds += min(now - last_look, 10)  # a longer gap: the machine slept
            last_look = now
            if self.random.random() < 0.05:
                self.command(chat, self.random.choice(MISTAKES), is_error=True)
            if int(seconds / 60) == minute:
                continue
            minute = int(seconds / 60)
            self.visit(minute % 3 + 1)
            held = chat.resources()
            if minute == 1 or first is None:  # caches fill in the first minute
                first = held
            print(f"{minute:3} min: {self.requests} requests, {self.repeated} answers compared, "
                  f"{self.failures} failures; {held[0]} KiB, {held[1]} threads, "
                  f"{held[2]} descriptors", flush=True)
        last = chat.resources()
        if last[0] > first[0] + 2048 or last[1:] != first[1:]:
            self.fail(f"KiB, threads or descriptors grew from {first} to {last}")
        code = chat.end()
        if code not in (0, 1):  # 1: after the mistakes
            self.fail(f"exit code {code}")
        return self.failures == 0


def soak(options, directory):
    try:
        return Soak(options, directory).run()
    except (Failure, BrokenPipeError) as failure:
        print("FAILURE:", failure)
        return False


# ---- abuse: one ordinary client while processes abuse the server

CHAT = "/v1/chat/completions"
USUAL = {"messages": [{"role": "user", "content": "What is the capital of Norway?"}],
         "temperature": 0, "max_tokens": 16}
POST = (b"POST " + CHAT.encode() +
        b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")


def post(port, body, path=CHAT, timeout=120):
    """Returns status and body of the answer. `body` is JSON text or a value to encode."""
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


def request(body, path=CHAT):
    data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return (POST.replace(CHAT.encode(), path.encode()) +
            b"Content-Length: %d\r\n\r\n" % len(data) + data)


def send(port, data):
    """Sends bytes and reads only the beginning of the answer."""
    with connect(port) as connection:
        connection.sendall(data)
        return connection.recv(4096)


# Each kind of abuse does a little of it in each call. `held` keeps connections between calls.

def ordinary(port, _):
    """Sends ordinary requests, for comparison."""
    post(port, {**USUAL, "temperature": 1, "max_tokens": 40, "ignore_eos": True})


def half_open(port, held):
    """Holds up to 200 connections that send nothing, or part of a request."""
    if len(held) < 200:
        connection = connect(port)
        part = [b"", b"POST /v1", POST, POST + b"Content-Length: 100\r\n\r\n{"]
        connection.sendall(random.choice(part))
        held.append(connection)
    else:
        time.sleep(0.05)


def connects(port, _):
    """Opens a hundred connections and closes each immediately."""
    for _ in range(100):
        connect(port).close()
    time.sleep(0.02)


def gigabytes(port, _):
    """Declares bodies of a gigabyte."""
    send(port, POST + b"Content-Length: 1000000000\r\n\r\n" + b" " * 1000)
    time.sleep(0.002)


def slow_bytes(port, held):
    """Holds a hundred connections that send one byte at a time."""
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


def headers(port, _):
    """Sends headers that are too long, too many or malformed."""
    fields = b"".join(b"X-%d: 1\r\n" % i for i in range(3000))
    for data in (b"GET /" + b"a" * 60000, POST + b"X: " + b"a" * 60000, POST + fields,
                 POST + b"\0", b"\x16\x03\x01" * 100):
        send(port, data)
    time.sleep(0.005)


def empty_lines(port, _):
    """Sends only line ends."""
    send(port, b"\r\n" * 32768)


def deep_json(port, _):
    """Sends deeply nested JSON and objects of many members."""
    members = ",".join(f'"{i}":0' for i in range(100000))
    for body in ("[" * 100000, '{"a":' * 100000, '{"messages":' + "[" * 120 + "]" * 120 + "}",
                 "{" + members + "}"):
        post(port, body)
    time.sleep(0.05)


def long_texts(port, _):
    """Sends prompts of megabytes."""
    text = random.choice(["a", "word ", " ", "水"]) * 1000000
    post(port, {"messages": [{"role": "user", "content": text}]})
    time.sleep(0.05)


def schemas(port, _):
    """Sends schemas that are expensive to compile."""
    salt = random.randrange(10**9)
    ranges = [{"type": "integer", "minimum": salt + 10 * i, "maximum": salt + 10 * i + 9}
              for i in range(500)]
    properties = {f"p{i}": {"type": "string", "maxLength": 100} for i in range(3000)}
    hostile = [
        {"type": "string", "minLength": 10**6 + salt},
        {"type": "string", "pattern": f"(a|b)*a(a|b){{30}}{salt}"},
        {"type": "string", "pattern": f"((a{{1,100}}){{1,100}}){{1,100}}{salt}"},
        {"enum": [f"{salt}x{i}" for i in range(10000)]},
        {"oneOf": ranges},
        {"type": "object", "properties": properties, "title": str(salt)},
        {"type": "array", "items": {"type": "string", "maxLength": 1000},
         "maxItems": 10**6 + salt},
    ]
    schema = {"name": "hostile", "schema": random.choice(hostile)}
    form = {"type": "json_schema", "json_schema": schema}
    post(port, {**USUAL, "max_tokens": 1, "response_format": form})


def grammars(port, _):
    """Sends highly ambiguous grammars."""
    rule = random.choice(['"x" | "(" root ")" | "x" root | "x" "x" root | "x" root "x"',
                          '("a"* "b"?)* ("a"? "b"?)* "a"* "b"*',
                          '"x" root "y" | "x" root "z" | "x"'])
    grammar = f"root ::= {rule}\n# {random.randrange(10**9)}"
    post(port, {**USUAL, "temperature": 1, "max_tokens": 40, "ignore_eos": True,
                "grammar": grammar})


def many_answers(port, _):
    """Requests sixteen answers to each of 2048 prompts, with every option, and disconnects."""
    body = {"prompt": [[1]] * 2048, "n": 16, "max_tokens": 1,
            "stop": [f"{i}" + "x" * 1000 for i in range(16)],
            "logit_bias": {str(i): -1 for i in range(1000)}}
    with connect(port) as connection:
        connection.sendall(request(body, "/v1/completions"))
        time.sleep(0.1)


def unread(port, held):
    """Requests long answers and reads none."""
    if len(held) >= 200:
        time.sleep(0.05)
        return
    held.append(connect(port))
    held[-1].sendall(request({"content": "¤" * 100000, "with_pieces": True}, "/tokenize"))


KINDS = {kind.__name__.replace("_", "-"): kind for kind in (
    ordinary, half_open, connects, gigabytes, slow_bytes, headers, empty_lines, deep_json,
    long_texts, schemas, grammars, many_answers, unread)}


def abuse_until(kind, port, end):
    """Runs in a process; ignores errors of the abusers."""
    held = []
    while time.time() < end:
        try:
            kind(port, held)
        except (OSError, http.client.HTTPException):
            time.sleep(0.01)
    for connection in held:
        connection.close()


class Server:
    def __init__(self, options, directory):
        self.log = directory / "log"
        # A small prefix cache fills early: later growth is a leak.
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [options.program, "serve", "--port", "0", "--cache-mib", "32",
                 "-m", options.model], stdout=log, stderr=log)
        for _ in range(600):
            found = re.search(r"http://127\.0\.0\.1:(\d+)", self.output())
            if found:
                self.port = int(found[1])
                return
            time.sleep(0.1)
        sys.exit("the server does not start: " + self.output()[:2000])

    def output(self):
        return self.log.read_text("utf-8", "replace")

    def memory(self):
        """Returns resident MiB."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


def median_of_requests(port, seconds, expected):
    """Sends ordinary requests one by one; returns median and 95th percentile in ms, failures."""
    times, failures, end = [], 0, time.time() + seconds
    while time.time() < end or len(times) < 5:
        begin = time.perf_counter()
        try:
            status, body = post(port, USUAL)
            right = status == 200 and json.loads(body)["choices"] == expected
        except (OSError, http.client.HTTPException):
            right = False
        times.append(1000 * (time.perf_counter() - begin))
        failures += not right
        time.sleep(0.01)
    return statistics.median(times), sorted(times)[int(0.95 * (len(times) - 1))], failures


def start_abusers(names, port, end, copies=1):
    abusers = [multiprocessing.Process(target=abuse_until, args=(KINDS[name], port, end))
               for name in names for _ in range(copies)]
    for abuser in abusers:
        abuser.start()
    return abusers


def abuse_by_kind(server, names, options):
    """Prints a line per kind; memory may grow by 16 MiB from the second round to the third."""
    expected = json.loads(post(server.port, USUAL)[1])["choices"]
    wrong, second = 0, 0
    for turn in range(3):
        for name in names:
            usual = median_of_requests(server.port, 1, expected)[0]
            abusers = start_abusers([name], server.port, time.time() + options.seconds, 2)
            time.sleep(0.3)
            median, late, failures = median_of_requests(server.port, options.seconds - 0.3,
                                                        expected)
            for abuser in abusers:
                abuser.join()
            wrong += failures
            print(f"{name:12} median {median:6.1f} ms ({median / usual:.2f} of {usual:.1f} ms "
                  f"before), 95th percentile {late:6.1f} ms, {failures} failures, "
                  f"memory {server.memory():.0f} MiB", flush=True)
        if turn == 1:
            second = server.memory()
    growth = server.memory() - second
    print(f"memory grew by {growth:.0f} MiB since the second round")
    return wrong + (growth > 16)


def abuse_mixed(server, names, options):
    """Runs every kind, ordinary clients and aborting ones at once; answers must stay the same."""
    requests = [
        USUAL,
        {**USUAL, "temperature": 1, "seed": 5, "max_tokens": 60, "ignore_eos": True},
        {**USUAL, "temperature": 1.2, "seed": 6, "n": 3, "max_tokens": 30, "logprobs": True,
         "top_logprobs": 2},
        {**USUAL, "temperature": 1, "seed": 7, "max_tokens": 80,
         "response_format": {"type": "json_object"}}]
    expected = [json.loads(post(server.port, body)[1])["choices"] for body in requests]
    end = time.time() + 60 * options.mixed
    wrong, answered, aborted = [], [0], [0]

    def asking(seed):
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
            answered[0] += 1

    def aborting(seed):
        draw = random.Random(seed)
        data = request({**USUAL, "max_tokens": 400, "ignore_eos": True, "temperature": 1,
                        "stream": draw.random() < 0.7})
        while time.time() < end:
            try:
                with connect(server.port) as connection:
                    connection.sendall(data)
                    time.sleep(draw.random() * 0.5)
                aborted[0] += 1
            except OSError:
                time.sleep(0.05)

    clients = [threading.Thread(target=work, args=(seed,))
               for work in (asking, aborting) for seed in range(4)]
    abusers = start_abusers(names, server.port, end)
    for client in clients:
        client.start()
    for one in abusers + clients:
        one.join()
    print("\n".join(wrong[:20]))
    print(f"{options.mixed:g} minutes: {answered[0]} answers, {len(wrong)} wrong, "
          f"{aborted[0]} aborted, memory {server.memory():.0f} MiB")
    return len(wrong)


def abuse(options, directory):
    names = [name for name in KINDS if re.search(options.only, name)]
    server = Server(options, directory)
    try:
        run = abuse_mixed if options.mixed else abuse_by_kind
        wrong = run(server, names, options)
    finally:
        code = server.stop()
    reports = [line for line in server.output().splitlines()
               if re.search(r"Sanitizer|runtime error|terminate", line)]
    print("\n".join(reports[:40]) if reports else f"the server's exit code is {code}")
    return not wrong and code == 0 and not reports


# ---- kills: a batch that is killed ten times

def kills(options, directory):
    count = 5000
    source = directory / "requests"
    source.write_text("".join(json.dumps({
        "prompt": f"The river rises in the hills and item {i % 97}", "raw": i % 2 == 0,
        "temperature": i % 3 * 0.7, "seed": i, "max_tokens": 2 + i % 7}) + "\n"
                              for i in range(count)))

    def start(out):
        return subprocess.Popen([options.program, "batch", "-m", options.model, "-i", source,
                                 "-o", out, "--parallel", "16"], stderr=subprocess.DEVNULL)

    whole, killed = directory / "whole", directory / "killed"
    begin = time.monotonic()
    if start(whole).wait() != 0:
        sys.exit("the uninterrupted run failed")
    seconds = time.monotonic() - begin
    chance = random.Random(1)
    for n in range(10):
        run = start(killed)
        time.sleep(seconds / 10 * chance.uniform(0.3, 1))
        if run.poll() is not None:
            sys.exit(f"the run ended before kill {n + 1}")
        run.send_signal(signal.SIGKILL)
        run.wait()
        lines = killed.read_bytes().count(10) if killed.exists() else 0
        print(f"killed with {lines} of {count} answers")
    if start(killed).wait() != 0:
        sys.exit("the last run failed")
    return killed.read_bytes() == whole.read_bytes()


# ---- calibration: `cria quantize --calibrate` that is killed ten times

def calibration(options, directory):
    def arguments(out):
        return [options.program, "quantize", options.model, out, "Q3_K", "--pure", "--allow-requantize",
                "--calibrate", "self", "--calibrate-tokens", "2048"]

    whole, killed, state = directory / "whole.gguf", directory / "killed.gguf", directory / "state"
    if subprocess.run(arguments(whole), stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit("the uninterrupted run failed")
    chance = random.Random(1)
    for n in range(10):
        before = state.stat().st_size if state.exists() else 0
        run = subprocess.Popen(arguments(killed) + ["--state", state], stderr=subprocess.DEVNULL)
        while run.poll() is None and (not state.exists() or state.stat().st_size <= before):
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))  # in the middle of a matrix
        if run.poll() is not None:
            sys.exit(f"the run ended before kill {n + 1}")
        run.send_signal(signal.SIGKILL)
        run.wait()
        print(f"killed with a state of {state.stat().st_size} bytes")
    if subprocess.run(arguments(killed) + ["--state", state], stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit("the last run failed")
    return killed.read_bytes() == whole.read_bytes() and not state.exists()


# ---- ranks: the bytes of one process for every division of the work

DIVISIONS = [(2, "1,1"), (2, "2,1"), (3, "1,1,1"), (3, "5,3,1"), (4, "1,1,1,1"),
             (7, "1,1,1,1,1,1,1"), (2, "auto")]
SHAPES = ["demo:Q4_K", "moe-demo:Q4_K", "mla-demo:Q4_K"]
TEXT = ("The ship that left the harbour in the morning came back before the evening. Nobody had "
        "seen the island that the captain spoke of, and those who had been with him said nothing "
        "at all. ")
MPI_ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1",
                   "OMPI_MCA_hwloc_base_binding_policy": "none",
                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def ranks(options, directory):
    (directory / "text").write_text(TEXT * 6)
    (directory / "requests").write_text("".join(json.dumps({
        "prompt": f"Item {i}: the river", "raw": True, "temperature": i % 3 * 0.6, "seed": i,
        "max_tokens": 4 + i}) + "\n" for i in range(6)))
    models = [options.model]
    for shape in SHAPES:
        models.append(directory / f"{shape}.gguf")
        subprocess.run([options.program, "bench", "--synthetic", shape, "--write", models[-1],
                        "-p", "1", "-n", "0", "-r", "1"], check=True, stdout=subprocess.DEVNULL)

    def output(prefix, command, suffix=()):
        """Returns what a command writes to stdout, or to the file that follows -o."""
        out = directory / "out"
        out.unlink(missing_ok=True)
        command = [*prefix, options.program, *command, *([out] if command[-1] == "-o" else []),
                   *suffix]
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL,
                              env=MPI_ENVIRONMENT, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: {done.stderr.decode()}")
        if "perplexity" in command:
            return json.loads(done.stdout)["ppl"]
        return out.read_bytes() if out.exists() else done.stdout

    wrong = 0
    for model in models:
        for kv_type in ("f16", "f32", "q8_0"):
            common = ["-m", model, "-t", "1", "--kv-type", kv_type]
            raw = ["--raw", "--ignore-eos"]
            tokens = ",".join(str(i * i % 250 + 3) for i in range(70))
            for command in (
                    ["logits", *common, "--tokens", tokens, "-o"],
                    ["run", *common, "--temp", "0", "-n", "24", "--speculate", "lookup", *raw,
                     TEXT * 2],
                    ["run", *common, "--seed", "7", "-n", "16", *raw, TEXT],
                    ["perplexity", *common, "-f", directory / "text", "-c", "64", "--chunks", "2",
                     "--json"],
                    ["batch", *common, "-i", directory / "requests", "--parallel", "3", "-o"]):
                expected = output([], command)
                for n, shares in DIVISIONS:
                    if output(["mpirun", "-n", str(n)], command, ["--shares", shares]) != expected:
                        wrong += 1
                        print(f"differs: {model} {kv_type} {command[0]}, {n} ranks {shares}")
            print(f"{pathlib.Path(model).name} {kv_type}: {len(DIVISIONS)} divisions", flush=True)
    return wrong == 0


# ---- isas: the perplexity of every instruction set is the scalar kernels'

def isas(options, _):
    version = subprocess.run([options.program, "--version"], capture_output=True, check=True,
                             text=True).stdout
    names = re.search(r"runs on ([^;)]*)", version)[1].replace(",", "").split()

    def perplexity(name):
        done = subprocess.run(
            [options.program, "perplexity", "-m", options.model, "-f", ROOT / "README.md",
             "--chunks", "4", "--json"], capture_output=True, check=True,
            env={**os.environ, "CRIA_ISA": name})
        return json.loads(done.stdout)["ppl"]

    expected, wrong = perplexity("scalar"), 0
    for name in names:
        value = perplexity(name)
        wrong += value != expected
        print(f"{name:12} {value}  {'equal' if value == expected else f'expected {expected}'}")
    return wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    tests = {test.__name__: test for test in (soak, abuse, kills, calibration, ranks, isas)}
    parser.add_argument("test", choices=tests)
    parser.add_argument("--program", default=ROOT / "build/release/tools/cria")
    parser.add_argument("--model", default=DEMO)
    parser.add_argument("--minutes", type=float, default=30, help="soak: length")
    parser.add_argument("--seconds", type=float, default=5, help="abuse: of each kind and round")
    parser.add_argument("--only", default="", metavar="REGEX", help="abuse: some kinds")
    parser.add_argument("--mixed", type=float, metavar="MINUTES", help="abuse: all kinds at once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cria-") as directory:
        passed = tests[options.test](options, pathlib.Path(directory))
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
