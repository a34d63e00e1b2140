#!/usr/bin/env python3
"""The program on several ranks: the bytes of one, and one line where a rank fails. ranks_test.py PROGRAM DEMO MPIRUN"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, DEMO, MPIRUN = sys.argv[1:4]
TEXT = ("The ship that left the harbour in the morning came back before the evening. Nobody had seen the island that the "
        "captain spoke of, and those who had been with him said nothing at all. ") * 3
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}  # containers may forbid it


def alone(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, check=True, stdin=subprocess.DEVNULL)


def on_ranks(n, *arguments, **environment):
    return subprocess.run([MPIRUN, "-n", str(n), PROGRAM, *arguments], capture_output=True, stdin=subprocess.DEVNULL,
                          env={**ENVIRONMENT, **environment}, timeout=120)


def errors(text):
    return [line for line in text.decode().splitlines() if line.startswith("cria: error:")]


def children(pid):
    def is_child(process):
        try:
            return int((process / "stat").read_text().rpartition(")")[2].split()[1]) == pid
        except OSError:  # it has ended meanwhile
            return False
    return [int(process.name) for process in pathlib.Path("/proc").iterdir() if process.name.isdigit() and is_child(process)]


class SameBytes(unittest.TestCase):
    def same_output(self, n, ranks, *arguments):
        got = on_ranks(n, *arguments, *ranks)
        self.assertEqual((got.returncode, [line for line in got.stderr.decode().splitlines() if line.startswith("cria")]), (0, []))
        self.assertEqual(got.stdout, alone(*arguments).stdout)

    def test_a_greedy_answer_with_guesses(self):
        self.same_output(2, [], "run", "-m", DEMO, "-t", "1", "--temp", "0", "-n", "24", "--speculate", "lookup", TEXT)

    def test_a_sampled_answer_on_unequal_ranks(self):
        self.same_output(3, ["--shares", "2,1,1"], "run", "-m", DEMO, "-t", "1", "--seed", "3", "-n", "12", "--kv-type", "q8_0",
                         "Who are you?")

    def test_logits_and_perplexity(self):
        with tempfile.TemporaryDirectory() as directory:
            text, one, two = (os.path.join(directory, name) for name in ("text", "one", "two"))
            pathlib.Path(text).write_text(TEXT)
            logits = ["logits", "-m", DEMO, "-t", "1", "--tokens", "1,400,500,7,9,2000", "-o"]
            alone(*logits, one)
            self.assertEqual(on_ranks(3, *logits, two).returncode, 0)
            self.assertEqual(pathlib.Path(one).read_bytes(), pathlib.Path(two).read_bytes())
            perplexity = ["perplexity", "-m", DEMO, "-t", "1", "-f", text, "-c", "64", "--chunks", "1", "--json"]
            self.assertEqual(json.loads(on_ranks(2, *perplexity).stdout)["ppl"], json.loads(alone(*perplexity).stdout)["ppl"])


    def test_measured_shares(self):
        command = ["run", "-m", DEMO, "-t", "1", "--temp", "0", "-n", "8", "Who are you?"]
        got = on_ranks(2, *command, "--shares", "auto")
        self.assertEqual(got.stdout, alone(*command).stdout)
        self.assertRegex(got.stderr.decode(), r"cria: note: shares by the read rate of each rank: \d+ \(.* GB/s\), \d+ \(")

    def test_answers_to_a_file_of_requests(self):
        with tempfile.TemporaryDirectory() as directory:
            requests, one, two = (os.path.join(directory, name) for name in ("requests", "one", "two"))
            pathlib.Path(requests).write_text("".join(
                json.dumps({"prompt": f"Item {i}: the river", "raw": True, "temperature": i * 0.4, "seed": i, "max_tokens": 4}) + "\n"
                for i in range(3)))
            batch = ["batch", "-m", DEMO, "-t", "1", "-i", requests, "--parallel", "2", "-o"]
            alone(*batch, one)
            self.assertEqual(on_ranks(3, *batch, two, "--shares", "5,3,1").returncode, 0)
            self.assertEqual(pathlib.Path(one).read_bytes(), pathlib.Path(two).read_bytes())


class Bench(unittest.TestCase):
    ARGUMENTS = ["bench", "-m", DEMO, "-p", "8", "-n", "4", "-r", "1", "-t", "1"]

    def test_tells_what_was_gathered(self):
        got = on_ranks(2, *self.ARGUMENTS, "--json")
        self.assertEqual(got.returncode, 0)
        prompt, decode = json.loads(got.stdout)
        for row in prompt, decode:
            self.assertEqual(row["ranks"], 2)
            self.assertTrue(0 < row["gather_share"] < 1)
            self.assertEqual(len(row["gathers"]), 5)  # four of a layer, and the logits
            for figure in "bytes_per_token", "microseconds_per_token":
                self.assertTrue(all(node[figure] > 0 for node in row["gathers"]))
            self.assertAlmostEqual(row["gather_bytes_per_token"], sum(node["bytes_per_token"] for node in row["gathers"]), 3)
        layers = {node["node"]: node["times_per_token"] for node in decode["gathers"]}
        self.assertEqual(layers.pop("output"), 1)
        self.assertEqual(set(layers.values()), {8})

    def test_has_a_second_table(self):
        got = on_ranks(2, *self.ARGUMENTS).stdout.decode().splitlines()
        begin = got.index("") + 1
        self.assertEqual(got[begin].split()[:2], ["test", "gathered"])
        self.assertEqual(len(got), begin + 1 + 2 * 6)
        self.assertTrue(all(len(line) <= 80 for line in got[begin:]))

    def test_all_ranks_find_a_synthetic_file(self):
        got = on_ranks(2, "bench", "--synthetic", "demo:Q8_0", "-p", "8", "-n", "4", "-r", "1", "-t", "1", "--json")
        self.assertEqual(got.returncode, 0, got.stderr)

    def test_each_rank_has_its_share_of_the_processors(self):
        arguments = ["bench", "-m", DEMO, "-p", "8", "-n", "0", "-r", "1", "--json"]
        got, = json.loads(on_ranks(2, *arguments, "--shares", "2,1", "--rank-timeout", "30").stdout)
        threads = json.loads(alone(*arguments).stdout)[0]["threads"]
        self.assertEqual((got["ranks"], got["threads"]), (2, max(1, threads // 2)))

    def test_limits_are_those_of_one_machine(self):
        got = on_ranks(2, *self.ARGUMENTS, "--roofline")
        self.assertEqual((got.returncode, got.stdout), (1, b""))
        self.assertEqual(errors(got.stderr), ["cria: error: --roofline measures one machine, not several ranks"])

    def test_is_as_ever_alone(self):
        self.assertNotIn("ranks", json.loads(alone(*self.ARGUMENTS, "--json").stdout)[0])


class Serve(unittest.TestCase):
    def test_ends_in_order_when_rank_0_is_told_to(self):
        command = [MPIRUN, "-n", "2", PROGRAM, "serve", "-m", DEMO, "-t", "1", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=ENVIRONMENT) as run:
            while (line := run.stderr.readline()) and b" at http://" not in line:
                pass
            first, second = sorted(children(run.pid), key=rank_of)
            os.kill(second, signal.SIGHUP)  # as where its terminal is closed: rank 0 decides what that means
            time.sleep(1)
            self.assertTrue(runs(second))
            os.kill(first, signal.SIGTERM)
            said = run.communicate(timeout=60)[1].decode()
            self.assertEqual(run.returncode, 0, said)


class Faults(unittest.TestCase):
    def test_a_file_of_a_session_is_refused_at_once(self):
        with tempfile.TemporaryDirectory() as directory:
            got = on_ranks(2, "run", "-m", DEMO, "--session", os.path.join(directory, "talk"), "Hello")
            self.assertEqual((got.returncode, got.stdout, len(errors(got.stderr))), (1, b"", 1))
            self.assertEqual(os.listdir(directory), [])

    def test_a_wrong_word_is_said_once(self):
        got = on_ranks(2, "run", "--no-such-option")
        self.assertEqual(got.returncode, 2)
        self.assertEqual(len(errors(got.stderr)), 1)

    def test_shares_are_one_per_rank(self):
        got = on_ranks(2, "run", "-m", DEMO, "--shares", "1,1,1", "Hello")
        self.assertEqual(got.returncode, 1)
        self.assertEqual(len(errors(got.stderr)), 1)

    def test_an_instruction_set_that_cannot_run_is_named(self):
        got = on_ranks(2, "run", "-m", DEMO, "--shares", "auto", "Hello", CRIA_ISA="none")
        self.assertEqual((got.returncode, got.stdout), (2, b""))
        lines = errors(got.stderr)
        self.assertEqual(len(lines), 1)
        self.assertIn("CRIA_ISA=none", lines[0])

    def test_an_mpirun_of_another_mpi_is_found_out(self):
        got = subprocess.run([PROGRAM, "run", "-m", DEMO, "-n", "1", "Hello"], capture_output=True, stdin=subprocess.DEVNULL,
                             env={**ENVIRONMENT, "PMI_SIZE": "2"})
        self.assertEqual((got.returncode, got.stdout), (1, b""))
        self.assertRegex(got.stderr.decode(), "^cria: error: 2 processes were started as ranks, but this one finds no other: ")

    def test_a_missing_module_is_told_by_its_path(self):
        with tempfile.TemporaryDirectory() as directory:
            program = shutil.copy(PROGRAM, directory)
            got = subprocess.run([program, "run", "-m", DEMO, "-n", "1", "Hello"], capture_output=True, stdin=subprocess.DEVNULL,
                                 env={**ENVIRONMENT, "PMI_SIZE": "2"})
        self.assertEqual((got.returncode, got.stdout), (1, b""))
        self.assertRegex(got.stderr.decode(), "^cria: error: 2 processes were started as ranks, but /[^.]*/cria/cria_mpi.so does not exist: "
                         "this cria was built without MPI, or the package cria-mpi is not installed\n$")

    def on_two_files(self, change, first=lambda model: model):
        """Rank 1 sees another file under the same name."""
        with tempfile.TemporaryDirectory() as directory:
            model = bytearray(pathlib.Path(DEMO).read_bytes())
            for name in ("a", "b"):
                os.mkdir(os.path.join(directory, name))
            pathlib.Path(directory, "a", "model.gguf").write_bytes(first(model))
            pathlib.Path(directory, "b", "model.gguf").write_bytes(change(model))
            one = lambda name: ["-n", "1", "-wdir", os.path.join(directory, name), PROGRAM, "run", "-m", "./model.gguf", "Hello"]
            got = subprocess.run([MPIRUN, *one("a"), ":", *one("b")], capture_output=True, stdin=subprocess.DEVNULL,
                                 env=ENVIRONMENT, timeout=120)
            self.assertEqual((got.returncode, got.stdout), (1, b""))
            return errors(got.stderr)

    def test_another_file_is_named_by_its_rank(self):
        def another_name(model):
            return model.replace(b"output_norm.weight", b"output_norm.weighs")

        def another_last_row(model):
            return model[:-1] + bytes([model[-1] ^ 1])

        def longer(model):
            return model + bytes(32)
        for change in another_name, another_last_row, longer:
            lines = self.on_two_files(change)
            self.assertEqual(len(lines), 1)
            self.assertRegex(lines[0], "^cria: error: rank 1 on ")

    def test_a_file_that_rotates_otherwise_is_named_by_its_rank(self):
        def yarn(beta):
            def change(model):
                with tempfile.TemporaryDirectory() as directory:
                    before, after = os.path.join(directory, "before.gguf"), os.path.join(directory, "after.gguf")
                    pathlib.Path(before).write_bytes(model)
                    keys = ["type=string:yarn", "factor=f32:4", "original_context_length=u32:512", f"yarn_beta_fast=f32:{beta}"]
                    alone("edit", before, after, *sum((["--set", "llama.rope.scaling." + key] for key in keys), []))
                    return pathlib.Path(after).read_bytes()
            return change
        lines = self.on_two_files(yarn(4), yarn(32))
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], "^cria: error: rank 1 on .*its file's keys differ$")

    def test_a_truncated_file_is_named_by_its_rank(self):
        lines = self.on_two_files(lambda model: model[:len(model) // 2])
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], "^cria: error: rank 1 on .*model.gguf")

    def test_a_rank_without_memory_is_named(self):
        limited = ["-n", "1", "sh", "-c", 'ulimit -v 1500000; exec "$0" "$@"', PROGRAM]
        command = ["run", "-m", DEMO, "-t", "1", "-c", "700000", "-n", "1", "Hello"]  # 1.4 GB of keys and values on each
        got = subprocess.run([MPIRUN, "-n", "1", PROGRAM, *command, ":", *limited, *command], capture_output=True,
                             stdin=subprocess.DEVNULL, env=ENVIRONMENT, timeout=120)
        self.assertEqual((got.returncode, got.stdout), (1, b""))
        lines = errors(got.stderr)
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], "^cria: error: rank 1 on .*: ")

    def test_no_part_of_a_file_is_left(self):
        with tempfile.TemporaryDirectory() as directory:
            out = os.path.join(directory, "out")

            def begun(run):
                while len(children(run.pid)) < 2:
                    time.sleep(0.01)
                time.sleep(1)
            tokens = ",".join(["7"] * 30000)
            self.end_of(signal.SIGKILL, 1, ["logits", "-c", "30000", "--tokens", tokens, "-o", out], ready=begun)
            self.assertEqual(os.listdir(directory), [])

    STORY = ["run", "-n", "100000", "--ignore-eos", "--context-shift", "Tell me a long story."]

    def end_of(self, number, who, arguments=STORY, stdin=subprocess.DEVNULL, ready=lambda run: run.stdout.read(1),
               **environment):
        """Something without an end is begun; then rank `who` gets the signal. What is said, once all have ended."""
        command = [MPIRUN, "-n", "2", PROGRAM, arguments[0], "-m", DEMO, "-t", "1", "--rank-timeout", "5", *arguments[1:]]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=stdin,
                              env={**ENVIRONMENT, **environment}) as run:
            ready(run)
            ranks = sorted(children(run.pid), key=rank_of)
            os.kill(ranks[who] if who is not None else run.pid, number)
            said = run.communicate(timeout=60)[1]
            self.assertNotEqual(run.returncode, 0)
            ended = time.monotonic() + 10  # mpirun may end a moment before those that it has killed
            while any(runs(rank) for rank in ranks) and time.monotonic() < ended:
                time.sleep(0.01)
            self.assertFalse(any(runs(rank) for rank in ranks))
            return said

    def test_a_stopped_rank_is_named(self):
        lines = errors(self.end_of(signal.SIGSTOP, 1))
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], "^cria: error: rank 1 on .*: no answer for 5 s")

    def test_a_stopped_first_rank_is_named(self):
        lines = errors(self.end_of(signal.SIGSTOP, 0))
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], "^cria: error: rank 0 on .*: no answer for 5 s")

    def test_a_first_rank_that_stops_while_it_has_nothing_to_do_is_named(self):
        def answered(run):
            run.stdin.write(b"Hello\n")
            run.stdin.flush()
            self.assertTrue(run.stdout.read(1))
            time.sleep(1)  # the answer is short; what is left of it does not matter
        lines = errors(self.end_of(signal.SIGSTOP, 0, ["chat", "-n", "4"], subprocess.PIPE, answered))
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], "^cria: error: rank 0 on .*: no answer for 5 s")

    def test_a_rank_that_stops_when_all_is_done_is_named(self):
        def idle(run):
            run.stdin.write(b"Hello\n")
            run.stdin.flush()
            self.assertTrue(run.stdout.read(1))
            time.sleep(1)
        # Stdin ends right after the signal. By TCP, rank 0 reads that before it notices the stopped
        # rank.
        lines = errors(self.end_of(signal.SIGSTOP, 1, ["chat", "-n", "4"], subprocess.PIPE, idle, OMPI_MCA_btl="self,tcp"))
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], "^cria: error: rank 1 on .*: no answer for 5 s")

    def test_a_killed_rank_ends_all(self):
        for who in (0, 1):
            self.end_of(signal.SIGKILL, who)

    def test_control_c_ends_all(self):
        self.end_of(signal.SIGINT, None)


def runs(pid):
    try:
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def rank_of(pid):
    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(int(entry.split(b"=")[1]) for entry in environment if entry.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")))


unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
