"""The Python package beside the program: the same bytes. Needs CRIA (the program), CRIA_LIBRARY, CRIA_SOURCE."""

import asyncio
import os
import pathlib
import re
import subprocess
import sys
import threading

import cria
import numpy as np
import pytest

SOURCE = pathlib.Path(os.environ["CRIA_SOURCE"])
DEMO = SOURCE / "data/cria-demo-Q8_0.gguf"
FRANCE = "What is the capital of France?"


def program(*arguments):
    return subprocess.run([os.environ["CRIA"], *arguments], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def model():
    with cria.Model(DEMO, n_ctx=512, sequences=3) as loaded:
        yield loaded


def test_text_is_that_of_the_program(model):
    sampling = {"temperature": 1.3, "top_k": 9, "seed": 5}
    expected = program("run", "-m", DEMO, "-n", "24", "--temp", "1.3", "--top-k", "9", "--seed", "5", "-p", FRANCE)
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


def test_embeddings_have_length_one(model):
    one = model.embed(FRANCE)
    assert one.shape == (model.n_embd,) and one.dtype == np.float32
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)
    assert model.embed([FRANCE, "A cat"])[0].tobytes() == one.tobytes()
    assert model.embed(FRANCE, pooling="last").tobytes() != one.tobytes()


def test_constraints(model):
    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}

    class Pydantic:
        @staticmethod
        def model_json_schema():
            return number

    for schema in (number, Pydantic, cria.Constraint("regex", r'\{"n":[0-9]{1,3}\}')):
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
    assert model.chat(FRANCE, temperature=0, stop=["Paris"]).stop == "Paris"
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


def test_ctrl_c_is_heard_while_the_library_computes():
    code = (
        "import cria, os, signal, sys\n"
        "model = cria.Model(sys.argv[1], n_ctx=2048)\n"
        "def by_then(*_): os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGALRM, by_then)\n"
        "try:\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "    while True: model.generate('The river', ignore_eos=True)\n"
        "except KeyboardInterrupt:\n"
        "    print(model.chat('What is the capital of France?', temperature=0))\n"
    )
    out = subprocess.run([sys.executable, "-c", code, DEMO], check=True, capture_output=True, text=True).stdout
    assert "Paris" in out


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


def test_errors_are_of_one_class(model, tmp_path):
    for fails, kind in (
        (lambda: cria.Model(tmp_path / "none.gguf"), "data"),
        (lambda: model.chat(FRANCE, heat=1), "argument"),
        (lambda: model.chat(FRANCE, temperature=-1), "data"),
        (lambda: model.chat("word " * 3000), "context"),
        (lambda: model.logits([-1]), "data"),
        (lambda: model.logits([1], first=2), "argument"),
        (lambda: model.apply_template([{"role": "user", "content": "x"}, {"role": "user", "content": "y\0"}]) and cria.Constraint("regex", "("), "constraint"),
    ):
        with pytest.raises(cria.Error) as failed:
            fails()
        assert failed.value.kind == kind, failed.value
    closed = cria.Model(DEMO)
    closed.close()
    with pytest.raises(cria.Error, match="no such model"):
        closed.tokenize("x")


def test_objects_leave_nothing_behind(model):
    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1])

    def make(n):
        for _ in range(n):
            model.own_engine.sequence().close()
            cria.Constraint("regex", "a").close()
            model.own_engine.stream(prompt=[1, 2], max_tokens=1).close()

    make(500)
    before = resident()
    make(3000)
    assert resident() - before < 256  # pages: one of each would be more


def test_the_readme(tmp_path):
    (tmp_path / "model.gguf").symlink_to(DEMO)
    code = re.search(r"```python\n(.*?)```", (SOURCE / "README.md").read_text(), re.S).group(1)
    assert "Paris" in subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True).stdout


def test_the_version_is_said_once():
    assert f'version = "{cria.__version__}"' in (SOURCE / "python/pyproject.toml").read_text()
