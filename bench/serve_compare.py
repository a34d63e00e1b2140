#!/usr/bin/env python3
"""Compares servers with many clients: tokens per second, time to the first token; a Markdown table.

    bench/serve_compare.py --peer llama.cpp=/path/to/llama-server --peer ik_llama.cpp=/path/to/llama-server [--clients 1,4,8,16] [-t 2]

A peer is any program with llama-server's arguments (-m -c -np -cb -t --host --port) and /completion.
All load the same synthetic file, or that of -m. For each number of clients, with and without a common
prefix (three quarters of the prompts), each server is restarted with one slot per client and warmed
up with a short answer to the first client's prefix. Then all clients ask at once. Tokens per second
count all tokens from the first request to the last token. Sampling is greedy; end tokens are ignored.
"""
import argparse
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from statistics import median


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A running server. `peer`: it has llama-server's interface."""

    def __init__(self, name, program, model, slots, context, threads):
        self.peer, self.port = name != "cria", free_port()
        common = ["-m", model, "--host", "127.0.0.1", "--port", str(self.port), "-t", str(threads)]
        if self.peer:
            command = [program, *common, "-c", str(context * slots), "-np", str(slots), "-cb", "--log-disable"]
        else:
            command = [program, "serve", *common, "-c", str(context), "--slots", str(slots)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        for _ in range(600):
            if self.process.poll() is not None:
                sys.exit(f"{self.process.args[0]} ended with {self.process.returncode}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit(f"{self.process.args[0]} does not become healthy")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ask(self, prompt, n):
        """(seconds to the first token, when the last came) of n tokens after this prompt of token ids."""
        body = {"prompt": prompt, "stream": True, "temperature": 0, "ignore_eos": True}
        if self.peer:
            path = "/completion"
            body.update({"n_predict": n, "cache_prompt": True})
        else:
            path = "/v1/completions"
            body.update({"max_tokens": n, "stream_options": {"include_usage": True}})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        begin = time.monotonic()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            sys.exit(f"{self.process.args[0]}: {response.status} {response.read()[:300]}")
        first = count = None
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            first = first or time.monotonic()
            event = json.loads(line[6:])
            count = event.get("tokens_predicted") or (event.get("usage") or {}).get("completion_tokens") or count
        if count != n:
            sys.exit(f"{self.process.args[0]}: {count} tokens came, {n} were asked for")
        return first - begin, time.monotonic()


def measure(server, prompts, warm, n):
    """(tokens/s of all, the 95th percentile of the seconds to the first token) of clients that ask at once."""
    server.ask(warm, 4)
    results = [None] * len(prompts)

    def client(at):
        results[at] = server.ask(prompts[at], n)

    threads = [threading.Thread(target=client, args=(at,)) for at in range(len(prompts))]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if None in results:
        sys.exit("a client failed")
    waits = sorted(first for first, _ in results)
    seconds = max(end for _, end in results) - begin
    return len(prompts) * n / seconds, waits[min(len(waits) - 1, int(0.95 * len(waits)))]


def make_prompts(draw, count, tokens, shared):
    common = [draw.randrange(300, 4000) for _ in range(shared)]
    return [common + [draw.randrange(300, 4000) for _ in range(tokens - shared)] for _ in range(count)]


def one_round(args, servers, model, clients, prefix, seed):
    """name → what measure() gives, for every server in turn."""
    draw = random.Random(seed)
    shared = args.prompt * 3 // 4 if prefix == "shared" else 0
    prompts = make_prompts(draw, clients, args.prompt, shared)
    warm = prompts[0][:args.prompt * 3 // 4] + make_prompts(draw, 1, 32, 0)[0]
    result = {}
    for name, program in servers.items():
        with Server(name, program, model, clients, args.prompt + args.tokens + 64, args.threads) as server:
            result[name] = measure(server, prompts, warm, args.tokens)
    return result


def row(clients, prefix, servers, rounds):
    speeds = [f"{median(result[name][0] for result in rounds):.1f}" for name in servers]
    waits = [f"{median(result[name][1] for result in rounds):.2f} s" for name in servers]
    ratio = "–"
    if len(servers) > 1:
        best = [max(speed for name, (speed, _) in result.items() if name != "cria") for result in rounds]
        ratio = f"**{median(result['cria'][0] / peer for result, peer in zip(rounds, best)):.2f}**"
    return "| " + " | ".join([str(clients), prefix, *speeds, ratio, *waits]) + " |"


def compare(args, servers, model):
    speeds, waits = [f"{name} tok/s" for name in servers], [f"{name} first token, p95" for name in servers]
    print("| " + " | ".join(["clients", "prefix", *speeds, "ratio", *waits]) + " |")
    print("|--:|---|" + "--:|" * (2 * len(servers) + 1), flush=True)
    for clients in map(int, args.clients.split(",")):
        for prefix in args.prefix.split(","):
            rounds = [one_round(args, servers, model, clients, prefix, 1000 * clients + turn) for turn in range(args.rounds)]
            print(row(clients, prefix, servers, rounds), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--cria", default=os.path.join(here, "../build/release/tools/cria"))
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--clients", default="1,4,8,16")
    parser.add_argument("--prefix", default="none,shared")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--synthetic", default="1.1b:Q4_K")
    parser.add_argument("-m", "--model", help="a file instead of a synthetic one")
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    servers = {"cria": args.cria, **dict(peer.split("=", 1) for peer in args.peer)}
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or os.path.join(folder, "model.gguf")
        if not args.model:
            subprocess.run([args.cria, "bench", "--synthetic", args.synthetic, "--write", model, "-p", "0", "-n", "1",
                            "-r", "1"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        compare(args, servers, model)


if __name__ == "__main__":
    main()
