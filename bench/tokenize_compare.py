#!/usr/bin/env python3
"""Compares the tokenizing speed and the token ids of cria and llama.cpp's llama-tokenize.

  bench/tokenize_compare.py --cria build/release/tools/cria --llama LLAMA_TOKENIZE --text TEXT VOCABULARY.gguf...

Measures processor time without start and loading, by subtracting that of a run on one word. The
input has the text --times times; each result is the minimum of --repeat runs.
"""
import argparse, os, subprocess, tempfile

def seconds(command, repeat):
    spent = []
    for _ in range(repeat):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"failed: {' '.join(command)}")
        spent.append(usage.ru_utime + usage.ru_stime)
    return min(spent)

def output(command):
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cria", default="build/release/tools/cria")
    parser.add_argument("--llama", required=True, help="the llama-tokenize program")
    parser.add_argument("--text", required=True)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--times", type=int, default=4, help="repetitions of the text in the input")
    parser.add_argument("vocabularies", nargs="+")
    options = parser.parse_args()
    with open(options.text, "rb") as file:
        text = file.read()
    with tempfile.TemporaryDirectory() as folder:
        short, long = os.path.join(folder, "short"), os.path.join(folder, "long")
        with open(short, "wb") as file:
            file.write(b"word")
        with open(long, "wb") as file:
            file.write(text * options.times)
        print("| vocabulary | cria, MB/s | llama.cpp, MB/s | ratio | same ids |\n|---|--:|--:|--:|---|")
        for vocabulary in options.vocabularies:
            def ours(path): return [options.cria, "tokenize", "-m", vocabulary, "--ids", "--no-bos", "-f", path]
            def theirs(path): return [options.llama, "-m", vocabulary, "--ids", "--no-bos", "--no-parse-special", "--log-disable", "-f", path]
            mine = (seconds(ours(long), options.repeat) - seconds(ours(short), options.repeat)) / options.times
            other = (seconds(theirs(long), options.repeat) - seconds(theirs(short), options.repeat)) / options.times
            same = output(ours(options.text)).split() == output(theirs(options.text)).strip("[]\n ").replace(",", " ").split()
            rate = len(text) / 1e6
            print(f"| {os.path.basename(vocabulary)} | {rate / mine:.1f} | {rate / other:.2f} | {other / mine:.1f} | {'yes' if same else 'NO'} |", flush=True)

if __name__ == "__main__":
    main()
