"""The Python package beside the program: the same bytes."""

import asyncio
import inspect
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import threading
import types
import weakref

import cria
import numpy as np
import pytest
from cria import _answer, _engine, _foreign, _library as lib
from conftest import DEMO, FRANCE, SOURCE, program


def test_text_is_that_of_the_program(model):
    sampling = {"temperature": 1.3, "top_k": 9, "seed": 5}
    expected = program("run", "-m", DEMO, "-n", "24", "--temp", "1.3", "--top-k", "9", "--seed", "5", "-p", FRANCE).removesuffix(b"\n")
    assert model.chat(FRANCE, max_tokens=24, **sampling).text.encode() == expected
    pieces = list(model.chat([{"role": "user", "content": FRANCE}], stream=True, max_tokens=24, **sampling))
    assert "".join(pieces).encode() == expected
    assert len(pieces) > 2
    raw = program("run", "-m", DEMO, "--raw", "-n", "12", "--temp", "0", "-p", "The river rises in")
    assert model.generate("The river rises in", max_tokens=12, temperature=0).text.encode() == raw


def test_logits_are_those_of_the_program(model, tmp_path):
    tokens = model.tokenize("The river rises in the mountains")
    program("logits", "-m", DEMO, "--tokens", ",".join(map(str, tokens)), "-o", str(tmp_path / "out"))
    expected = np.fromfile(tmp_path / "out", dtype="<f4").reshape(len(tokens), model.n_vocab)
    assert model.logits(tokens).tobytes() == expected.tobytes()
    assert model.logits(tokens, first=3).tobytes() == expected[3:].tobytes()
    with model.own_engine.sequence() as one, model.own_engine.sequence(1) as other:
        assert model.own_engine.forward([(one, tokens[:4], 4)]).shape == (0, model.n_vocab)
        fork = one.fork()
        both = model.own_engine.forward([(fork, tokens[4:], 0), (other, tokens, len(tokens) - 1)])
        assert both.tobytes() == np.concatenate([expected[4:], expected[-1:]]).tobytes()
        with pytest.raises(ValueError, match="n: expected 0 to"):
            one.truncate(-1)
        assert one.truncate(2) == 2 and list(fork.tokens) == list(tokens)
        assert one.reuse(tokens) == len(tokens)
        fork.close()


def test_tokens_and_templates(model):
    text = "Ünï <|im_start|> code"
    ids = model.tokenize(text)
    assert ids.dtype == np.int32
    assert " ".join(map(str, ids)).encode() == program("tokenize", "-m", DEMO, "--ids", "-p", text).strip()
    assert model.detokenize(ids) == text
    assert model.detokenize_bytes(model.tokenize(b"\xff\0z")) == b"\xff\0z"
    with_tools = [{"role": "user", "content": [{"type": "text", "text": FRANCE}]}]
    assert model.apply_template(with_tools) == model.apply_template(FRANCE)
    assert list(model.tokenize(model.apply_template(FRANCE), markers=True)) == list(model.template_tokens(FRANCE))


TEXT = (SOURCE / "data/cria-demo.md").read_bytes()


@pytest.mark.parametrize("stride", [0, 24])
def test_perplexity_is_that_of_the_program(model, stride):
    windows = ["-c", 32, "--chunks", 5, *(["--stride", stride] if stride else [])]
    expected = program("perplexity", "-m", DEMO, "-f", SOURCE / "data/cria-demo.md", *windows, "--json")
    got = model.perplexity(TEXT, window=32, max_windows=5, stride=stride)
    assert f'"ppl":{got.value!r},"ppl_stderr":{got.standard_error!r},"tokens":{got.tokens},' in expected.decode().replace(" ", "").replace("\n", "")
    assert got.windows == 5


def test_scores_are_what_perplexity_is_made_of(model):
    tokens = [model.bos, *model.tokenize(TEXT, special=False)[:31]]
    (scores,) = model.own_engine.score([(tokens, 17)])
    mean = 0.0
    for n, logprob in enumerate(scores.logprobs.tolist(), 1):
        mean += (-logprob - mean) / n
    assert math.exp(mean) == model.perplexity(TEXT, window=32, max_windows=1).value
    assert list(scores.likeliest) == list(model.logits(tokens)[16:-1].argmax(axis=1))
    # Many together, with common prefixes, some in several passes, give the scores of single ones.
    long = model.tokenize(TEXT)[:400]
    texts = [(long[: 100 + 7 * i], 60 + 5 * i) for i in range(9)] + [([*tokens, i], 32) for i in range(5)] + [(long, 1), (long, 400)]
    together = model.own_engine.score(texts)
    with model.engine(n_ctx=512, n_batch=64, prefix_cache=False) as alone:
        for text, scores in zip(texts, together):
            (expected,) = alone.score([text])
            assert scores.logprobs.tobytes() == expected.logprobs.tobytes()
            assert scores.likeliest.tobytes() == expected.likeliest.tobytes()
    assert len(together[-1].logprobs) == 0 and len(together[-2].logprobs) == 399
    assert model.own_engine.score([]) == []


def test_guesses_change_no_answer(model):
    again = "one two three four five. one two three four five. one two three"
    plain = model.generate(again, temperature=0, max_tokens=24, speculate="off")
    guessed = model.generate(again, temperature=0, max_tokens=24, speculate="lookup")
    assert plain.drafted_tokens == 0 < guessed.kept_tokens <= guessed.drafted_tokens
    assert guessed.text == plain.text
    with cria.Model(DEMO) as small, model.engine(n_ctx=256, draft=small) as engine:
        assert engine.generate(again, temperature=0, max_tokens=24).text == plain.text
    with pytest.raises(ValueError, match="lookup"):
        model.generate(again, speculate="perhaps")


def write_adapter(path):
    """A LoRA of rank 1, strong enough to change what the demo model says."""

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    keys = {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora"}
    out = b"GGUF" + struct.pack("<IQQ", 3, 16, 4)
    out += b"".join(text(key) + struct.pack("<I", 8) + text(value) for key, value in keys.items())
    out += text("adapter.lora.alpha") + struct.pack("<If", 6, 16.0)
    data = b""
    for layer in range(8):
        for part, shape in (("a", (256, 1)), ("b", (1, 768))):
            out += text(f"blk.{layer}.ffn_up.weight.lora_{part}") + struct.pack("<IQQIQ", 2, *shape, 0, len(data))
            n = shape[0] * shape[1]
            data += np.array([i * 37 % 41 / 41 - 0.5 for i in range(n)], dtype="<f4").tobytes()
    path.write_bytes(out + b"\0" * (-len(out) % 32) + data)


def test_adapters_are_applied_as_by_the_program(model, tmp_path):
    adapter = tmp_path / "adapter.gguf"
    write_adapter(adapter)
    plain = model.generate("Once", temperature=0, max_tokens=12).text
    for loras, option in (([adapter], adapter), ([(str(adapter), 0.5)], f"{adapter}:0.5")):
        with cria.Model(DEMO, n_ctx=128, loras=loras) as adapted:
            changed = adapted.generate("Once", temperature=0, max_tokens=12).text
        assert changed != plain
        assert changed.encode() == program("run", "-m", DEMO, "--raw", "--lora", option, "-n", "12", "--temp", "0", "-p", "Once")


def test_embeddings_have_length_one(model):
    one = model.embed(FRANCE)
    assert one.shape == (model.n_embd,) and one.dtype == np.float32
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)
    assert model.embed([FRANCE, "A cat"])[0].tobytes() == one.tobytes()
    last = model.embed(FRANCE, pooling="last")
    assert last.tobytes() != one.tobytes()
    tokens = model.embed(FRANCE, pooling="none")
    assert tokens.shape == (len(model.tokenize(FRANCE)), model.n_embd) and tokens[-1].tobytes() == last.tobytes()
    assert model.embed(FRANCE, pooling="cls").tobytes() == tokens[0].tobytes()
    assert [len(rows) for rows in model.embed([FRANCE, "A"], pooling="none")] == [len(tokens), len(model.tokenize("A"))]
    with pytest.raises(ValueError):
        model.embed(FRANCE, pooling="max")


def test_rerank():
    vectors = pathlib.Path(__file__).parents[1] / "data" / "vectors"
    with cria.Model(str(vectors / "bert-rank.gguf")) as reranker:
        scores = reranker.rerank("a", ["b", "c d", "b"])
        assert scores.shape == (3,) and scores[0] == scores[2] != scores[1] and (0 < scores).all() and (scores < 1).all()
        assert reranker.rerank("a", ["c d"])[0] == scores[1]
        assert len(reranker.rerank("a", [])) == 0
        with pytest.raises(cria.Error, match="predicts no tokens"):
            reranker.generate("a")
    with cria.Model(str(vectors / "bert-tokens.gguf")) as encoder:
        assert encoder.embed("abc").shape == (len(encoder.tokenize("abc")) * encoder.n_embd,)
        with pytest.raises(cria.Error, match="no classifier"):
            encoder.rerank("a", ["b"])


def test_constraints(model):
    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}

    class Pydantic:
        @staticmethod
        def model_json_schema():
            return number

    class Pydantic1:
        @staticmethod
        def schema():
            return number

    for schema in (number, Pydantic, Pydantic1, cria.Constraint("regex", r'\{"n":[0-9]{1,3}\}')):
        assert re.fullmatch(r'\s*\{\s*"n"\s*:\s*-?\d+\s*\}\s*', model.chat(FRANCE, schema=schema, seed=1, max_tokens=60).text)
    assert model.chat(FRANCE, grammar='root ::= "yes" | "no"', seed=1).text in ("yes", "no")
    assert model.chat(FRANCE, regex="[a-z]{3}", seed=1).text.isalpha()
    assert cria.Constraint("regex", "ab+").accepts("abb") and cria.Constraint("regex", "ab+").begins("a")
    with pytest.raises(cria.Error) as refused:
        model.chat(FRANCE, schema={"type": "nonsense"})
    assert refused.value.kind == "constraint"


def test_a_batch_has_the_texts_that_its_answers_have_alone(model):
    requests = [FRANCE, {"prompt": "The river", "max_tokens": 9}, [{"role": "user", "content": "Who are you?"}], FRANCE]
    together = model.own_engine.batch(requests, max_tokens=16, seed=3)
    assert [a.text for a in together] == [
        model.chat(FRANCE, max_tokens=16, seed=3).text,
        model.generate("The river", max_tokens=9, seed=3).text,
        model.chat("Who are you?", max_tokens=16, seed=3).text,
        model.chat(FRANCE, max_tokens=16, seed=3).text,
    ]


def test_an_answer_tells_of_itself(model):
    answer = model.generate("The river", temperature=0, max_tokens=5, logprobs=2)
    assert answer.stop_reason == "length" and len(answer.tokens) == len(answer.logprobs) == 5
    assert [t for t, _, _ in answer.logprobs] == list(answer.tokens)
    assert all(top[0] == (token, logprob) and len(top) == 2 for token, logprob, top in answer.logprobs)
    assert model.chat(FRANCE, temperature=0, stop=["Paris"]).stop == "Paris" == model.chat(FRANCE, temperature=0, stop="Paris").stop
    assert model.generate("The river", max_tokens=1, logprobs=False).logprobs == []
    forced = model.generate("The river", logit_bias={int(answer.tokens[0]): float("-inf")}, temperature=0, max_tokens=1)
    assert forced.tokens[0] != answer.tokens[0]


def test_closing_an_iterator_ends_the_answer():
    with cria.Model(DEMO, n_ctx=256) as model:  # one sequence: another can begin only when it is over
        endless = model.generate("The river", stream=True, ignore_eos=True)
        next(endless)
        endless.close()
        with pytest.raises(cria.Error, match="no such answer"):
            next(endless)
        with model.generate("The river", stream=True, ignore_eos=True) as left:
            next(left)
        model.own_engine.sequence().close()
        cancelled = model.generate("The river", stream=True, ignore_eos=True)
        next(cancelled)
        cancelled.cancel()
        assert cancelled.result().stop_reason == "cancelled"


# The signal arrives during the pass over 3000 tokens: threads other than the sender have used
# processor time. An interrupted pass leaves nothing of the prompt in the cache.
CTRL_C = """
import cria, os, signal, sys, threading, time
model = cria.Model(sys.argv[1], n_ctx=4096, n_batch=4096, threads=1)
tokens = [1] + [300 + i % 500 for i in range(3000)]
engine = model.own_engine

def others():
    return time.process_time() - time.thread_time()

def interrupt():
    begin = others()
    while others() < begin + 0.02: pass
    os.kill(os.getpid(), signal.SIGINT)

def known_after(compute):
    threading.Thread(target=interrupt).start()
    try:
        compute()
    except KeyboardInterrupt:
        with engine.sequence() as sequence:
            return sequence.reuse(tokens)

print(known_after(lambda: model.generate(tokens, max_tokens=1)),
      known_after(lambda: next(model.generate(tokens, max_tokens=1, stream=True))),
      known_after(lambda: model.logits(tokens, first=3000)),
      known_after(lambda: engine.score([(tokens, 3000)])),
      known_after(lambda: model.embed(tokens)))
print(model.chat("What is the capital of France?", temperature=0))
"""


def test_ctrl_c_ends_a_pass_within_a_node():
    done = subprocess.run([sys.executable, "-c", CTRL_C, DEMO], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 0 0 0 0\n") and "Paris" in done.stdout


def test_ctrl_c_between_two_lines_ends_the_computation(monkeypatch):
    begin = _answer._thread.start_new_thread

    def interrupted(*arguments):  # as when the signal is noticed behind the call
        begin(*arguments)
        assert begun.wait(60)
        raise KeyboardInterrupt

    def compute():
        begun.set()
        cancelled.wait(60)
        ended.append(True)

    begun, cancelled, ended = threading.Event(), threading.Event(), []
    monkeypatch.setattr(_answer, "_thread", types.SimpleNamespace(start_new_thread=interrupted))
    with pytest.raises(KeyboardInterrupt):
        _answer.interruptible(compute, cancelled.set)
    assert ended

    def refused(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_answer, "_thread", types.SimpleNamespace(start_new_thread=refused))
    with pytest.raises(RuntimeError):
        _answer.interruptible(compute, cancelled.set)


def test_a_computation_keeps_its_memory(model, monkeypatch):
    """Where Ctrl-C has come twice its thread may go on when nobody waits for it any more."""
    made, left = [], []

    def recorded(make):
        def array(*arguments, **how):
            made.append(weakref.ref(new := make(*arguments, **how)))
            return new

        return array

    def interrupted(compute, cancel):
        left.append(compute)
        raise KeyboardInterrupt

    engine, tokens = model.own_engine, np.array([1, 2], dtype=np.int64)
    with engine.sequence() as sequence:
        for arrays, compute in (
            (2, lambda: engine.score([(tokens, 1)])),
            (2, lambda: engine.forward([(sequence, tokens, 2)])),
            (2, lambda: engine.logits(tokens)),
            (1, lambda: engine.embed(tokens)),  # the thread itself makes the result
        ):
            with monkeypatch.context() as patch:
                patch.setattr(np, "empty", recorded(np.empty))
                patch.setattr(np, "ascontiguousarray", recorded(np.ascontiguousarray))
                patch.setattr(_engine, "interruptible", interrupted)
                try:
                    compute()
                except KeyboardInterrupt:
                    pass
            assert [array() is not None for array in made] == [True] * arrays
            made.clear()


def test_ctrl_c_ends_a_stream():
    code = (
        "import cria, os, signal, sys\n"
        "model = cria.Model(sys.argv[1], n_ctx=2048)\n"
        "stream = model.generate('The river', ignore_eos=True, stream=True)\n"
        "try:\n"
        "    for n, piece in enumerate(stream):\n"
        "        if n == 5: os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    stream.cancel()\n"
        "    print(n, stream.result().stop_reason)\n"
    )
    out = subprocess.run([sys.executable, "-c", code, DEMO], check=True, capture_output=True, text=True).stdout
    assert out == "5 cancelled\n"


def test_threads_and_tasks_share_an_engine(model):
    expected = [model.chat(FRANCE, seed=seed, max_tokens=16).text for seed in range(3)]
    got = {}

    def answer(seed):
        got[seed] = "".join(model.chat(FRANCE, seed=seed, max_tokens=16, stream=True))

    threads = [threading.Thread(target=answer, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[seed] for seed in range(3)] == expected

    async def task(seed):
        return "".join([piece async for piece in model.chat(FRANCE, seed=seed, max_tokens=16, stream=True)])

    async def tasks():
        return await asyncio.gather(*(task(seed) for seed in range(3)))

    assert asyncio.run(tasks()) == expected


def test_a_cancelled_task_ends_its_answer(model):
    endless = model.generate("The river", ignore_eos=True, stream=True)

    async def reads():
        async for _ in endless:
            begun.set()

    async def main():
        task = asyncio.ensure_future(reads())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        answer = await endless.aresult()
        await endless.aclose()
        return answer

    begun = asyncio.Event()
    assert asyncio.run(main()).stop_reason == "cancelled"


def test_an_answer_that_is_closed_while_it_is_read_is_freed_afterwards(model, monkeypatch):
    def closes_behind(call, stream):
        """call() as it is; then another thread closes the stream, before what it returned is read."""

        def closing(*arguments):
            status = call(*arguments)
            thread = threading.Thread(target=stream.close)
            thread.start()
            thread.join()
            assert stream._free.alive
            return status

        return closing

    call = lib.call
    stream = model.generate("The river", stream=True, temperature=0, max_tokens=5, logprobs=20)
    closing = closes_behind(call, stream)
    monkeypatch.setattr(lib, "call", lambda name, *rest: (closing if name == "answer_result" else call)(name, *rest))
    answer = stream.result()
    monkeypatch.undo()
    assert answer.text == model.generate("The river", temperature=0, max_tokens=5).text and len(answer.logprobs) == 5
    for first in (next, lambda stream: next(iter(stream))):  # the second: while pieces come fast
        stream = model.generate("The river", stream=True, temperature=0, ignore_eos=True)
        stream._answer_next, stream._seconds = closes_behind(stream._answer_next, stream), 0
        assert answer.text.startswith(first(stream))
        with pytest.raises(cria.Error, match="no such answer"):
            stream.result()


def test_a_stream_may_be_closed_when_its_task_is_cancelled(model):
    async def leave():
        with model.generate("The river", stream=True, ignore_eos=True, logprobs=20) as stream:
            next(stream)
            task = asyncio.ensure_future(stream.aresult())
            await asyncio.sleep(0)  # it has begun
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    for _ in range(10):
        asyncio.run(leave())


def test_streams_are_asynchronous_contexts(model):
    async def first():
        async with model.generate("The river", stream=True, ignore_eos=True) as endless:
            async for piece in endless:
                return endless, piece

    endless, piece = asyncio.run(first())
    assert piece
    with pytest.raises(cria.Error, match="no such answer"):
        endless.result()


def test_what_interrupts_is_what_is_raised_though_all_is_closed(model, monkeypatch):
    endless = model.generate("The river", stream=True, ignore_eos=True)

    async def main():
        task = asyncio.ensure_future(endless.aresult())
        await asyncio.sleep(0)
        endless.close()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())

    def interrupted(*arguments):
        begin(*arguments)
        assert begun.wait(60)
        raise KeyboardInterrupt

    def closed():
        ends.set()
        raise cria.Error("no such engine", "handle")

    begin, begun, ends, ended = _answer._thread.start_new_thread, threading.Event(), threading.Event(), []
    monkeypatch.setattr(_answer, "_thread", types.SimpleNamespace(start_new_thread=interrupted))
    with pytest.raises(KeyboardInterrupt):
        _answer.interruptible(lambda: (begun.set(), ends.wait(60), ended.append(True)), closed)
    assert ended


FORK = """
import cria, os, signal, sys

def child(compute):
    if os.fork() != 0:
        return os.waitstatus_to_exitcode(os.wait()[1])
    signal.alarm(60)  # for one that hangs
    try:
        print(compute().text, flush=True)
    except cria.Error as error:
        print(error.kind, str(error)[:6], flush=True)
    sys.exit()

model = cria.Model(sys.argv[1], n_ctx=128, threads=2)
greedy = dict(temperature=0, max_tokens=4)
print(child(lambda: model.generate("The river", **greedy)), flush=True)
print(model.generate("The river", **greedy), flush=True)
stream = model.generate("The river", stream=True, ignore_eos=True, **greedy)
pieces = iter(stream)
print(next(pieces) != "", flush=True)
for compute in (
    lambda: model.generate("The river", **greedy),
    lambda: cria.Model(sys.argv[1], n_ctx=128, threads=2).generate("The river", **greedy),
    lambda: next(pieces),
    lambda: stream.result(),
    lambda: model.tokenize("x"),
):
    print(child(compute), flush=True)
print(model.generate("The river", **greedy))
"""


def test_a_forked_process_has_no_engines(model):
    text = model.generate("The river", temperature=0, max_tokens=4).text
    done = subprocess.run([sys.executable, "-c", FORK, DEMO], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{text}\n0\n{text}\nTrue\n" + "handle forked\n0\n" * 5 + f"{text}\n"


def test_errors_are_of_one_class(model, tmp_path):
    for fails, kind in (
        (lambda: cria.Model(tmp_path / "none.gguf"), "data"),
        (lambda: model.chat(FRANCE, heat=1), "argument"),
        (lambda: model.chat(FRANCE, temperature=-1), "data"),
        (lambda: model.chat("word " * 3000), "context"),
        (lambda: model.generate("word " * 3000), "context"),
        (lambda: model.logits([-1]), "data"),
        (lambda: model.logits([1], first=2), "argument"),
        (lambda: model.apply_template([{"role": "user", "content": "x"}, {"role": "user", "content": "y\0"}]) and cria.Constraint("regex", "("), "constraint"),
    ):
        with pytest.raises(cria.Error) as failed:
            fails()
        assert failed.value.kind == kind, failed.value
    for wrong, error, text in (
        (lambda: cria.Model(DEMO, n_cxt=1), TypeError, "n_cxt"),
        (lambda: cria.Model(DEMO, threads=-1).own_engine, ValueError, "threads: expected 0 to 4294967295, got -1"),
        (lambda: model.chat(FRANCE, seed=2**64), ValueError, "seed: expected 0 to"),
        (lambda: model.chat(FRANCE, temperature="hot"), TypeError, "temperature: expected a number, got 'hot'"),
        (lambda: model.chat(FRANCE, max_tokens=1.5), TypeError, "max_tokens: expected a whole number"),
        (lambda: model.chat({"role": "user", "content": "x"}), TypeError, "messages: expected a text or a list"),
        (lambda: model.chat([]), cria.Error, "without messages"),
        (lambda: model.chat([{"content": "x"}]), ValueError, "a role"),
        (lambda: model.generate([1.5]), ValueError, "whole numbers"),
        (lambda: model.generate(["a", "b"]), TypeError, r"batch\(\) answers several"),
        (lambda: model.generate("x", max_tokens=-2), cria.Error, "negative"),
        (lambda: model.generate([2**32 + 1]), ValueError, "32 bits"),
        (lambda: model.logits("x"), ValueError, "list of ids"),
        (lambda: model.embed("x", pooling="max"), ValueError, '"mean", "cls", "last", "none" or None'),
        (lambda: model.own_engine.batch("x"), TypeError, "expected a list"),
        (lambda: model.chat(FRANCE, logit_bias={2**32 + 5: -100}), ValueError, "logit_bias: expected -2147483648 to"),
        (lambda: model.own_engine.sequence(-1), ValueError, "scope: expected 0 to"),
        (lambda: model.own_engine.score([([1, 2], 1)], scope=-1), ValueError, "scope: expected 0 to"),
        (lambda: model.own_engine.stream(prompt="x", scope=-1), ValueError, "scope: expected 0 to"),
        (lambda: model.logits([1, 2], first=-1), ValueError, "first: expected 0 to"),
        (lambda: model.own_engine.score([([1, 2], -1)]), ValueError, "first: expected 0 to"),
        (lambda: model.generate("x", tools=[]), ValueError, "go with messages"),
        (lambda: model.generate("x", variables={"enable_thinking": False}), ValueError, "go with messages"),
        (lambda: cria.Model(DEMO, n_gpu_layers=99), TypeError, "n_gpu_layers: unknown argument; cria computes on the CPU"),
        (lambda: cria.Model(DEMO, n_threads=1), TypeError, "use threads="),
        (lambda: cria.Model(model_path=DEMO), TypeError, "the file is the first argument"),
        (lambda: cria.Model(), TypeError, r"the file is missing: cria.Model\(FILE\)"),
        (lambda: model.eval([1]), AttributeError, r"own_engine.sequence\(\)"),
        (lambda: model.engine(ctx=512), TypeError, "use n_ctx="),
        (lambda: model.chat(FRANCE, system="Be brief."), TypeError, "first among the messages"),
        (lambda: model.own_engine.stream(prompt="x", response_format={}), TypeError, "use schema="),
        (lambda: model.create_chat_completion([]), AttributeError, r"use chat\(messages\)"),
        (lambda: cria.Model.from_pretrained("x"), AttributeError, "cria convert"),
        (lambda: cria.Llama("x"), AttributeError, "opens a GGUF file"),
        (lambda: exec("from cria import Llama"), ImportError, r"cannot import name 'Llama' from 'cria'; cria.Model\(FILE\)"),
        (lambda: exec("from cria import nothing"), ImportError, "cannot import name 'nothing'"),
        (lambda: model("x", max_tokens=1), TypeError, r"use generate\(prompt\)"),
        (lambda: model.chat(FRANCE, max_tokens=1)["choices"][0]["text"], TypeError, "use text"),
        (lambda: model.chat(FRANCE, max_tokens=1).choices, AttributeError, "use text"),
        (lambda: model.nothing, AttributeError, "'Model' object has no attribute 'nothing'$"),
    ):
        with pytest.raises(error, match=text):
            wrong()
    truncated = tmp_path / "truncated.gguf"
    truncated.write_bytes(DEMO.read_bytes()[:1000])
    with pytest.raises(cria.Error) as failed:
        cria.Model(truncated)
    error = failed.value
    assert error.file == str(truncated) and error.where.startswith("at byte")
    assert str(error) == f"{error.file}: {error.message} ({error.where})"
    assert (cria.Error("x: y", "data").file, cria.Error("x: y", "data").message) == ("", "x: y")
    closed = cria.Model(DEMO)
    closed.close()
    with pytest.raises(cria.Error, match="no such model"):
        closed.tokenize("x")


def test_none_is_the_default(model):
    assert model.chat(FRANCE, temperature=0, max_tokens=None, stop=None, seed=None).text == model.chat(FRANCE, temperature=0).text
    assert model.chat(FRANCE, temperature=0, max_tokens=-1).text == model.chat(FRANCE, temperature=0).text


def test_hints_at_other_libraries_name_what_there_is(model):
    options = [inspect.signature(f).parameters for f in (cria.Model, cria.Engine, cria.Engine.stream)]
    ours = {name for parameters in options for name in parameters} | {"temperature", "repeat_penalty"}
    assert not ours & set(_foreign._argument_hints)
    for name, hint in _foreign._argument_hints.items():
        assert set(re.findall(r"(?:use|put) (\w+)=", hint)) <= ours, name
    for name, hint in _foreign._attribute_hints.items():
        assert not hasattr(cria, name) and not hasattr(model, name), name
        used = re.match(r"use (\w+)", hint)
        assert used is None or hasattr(model, used[1]) or used[1] in cria.Answer.__dataclass_fields__, name


def test_objects_leave_nothing_behind(model):
    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1])

    def make(n):
        for i in range(n):
            model.own_engine.sequence().close()
            cria.Constraint("regex", "a").close()
            with model.own_engine.stream(prompt=[1, 2], max_tokens=1) as answer:
                if i % 10 == 0:
                    answer.result()
            model.own_engine.stream(prompt=[1, 2], max_tokens=1)  # dropped

    make(250)
    before = resident()
    make(2000)  # of 5 objects each, with the samplers
    assert resident() - before < 256  # pages: one of each would be more


def test_the_version_is_said_once():
    assert f'version = "{cria.__version__}"' in (SOURCE / "python/pyproject.toml").read_text()
