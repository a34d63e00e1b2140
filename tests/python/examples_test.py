"""The examples of the Python package on the demo model, and the package as it is installed."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile

import cria
import numpy as np
from conftest import DEMO, SOURCE, program

EXAMPLES = SOURCE / "python/examples"
QUESTIONS = [
    {"question": "The capital of France is", "choices": ["Paris.", "a river.", "blue."], "answer": 0},
    {"question": "The sky is", "choices": ["Paris.", "a river.", "blue."], "answer": 2},
    {"question": "A spider has eight", "choices": ["wheels", "legs", "names of towns"], "answer": 1},
]


def run(example, *arguments):
    return subprocess.run([sys.executable, EXAMPLES / example, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def harness():
    spec = importlib.util.spec_from_file_location("harness", EXAMPLES / "harness.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Instance:
    """As lm-evaluation-harness gives requests."""

    def __init__(self, *args):
        self.args = args


def test_the_harness_answers_as_the_program(tmp_path):
    questions = tmp_path / "questions"
    questions.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    expected = json.loads(program("perplexity", "-m", DEMO, "--choices", questions, "--json"))
    out = run("harness.py", DEMO, "--choices", questions, "--sequences", 4)
    assert out == f"acc {expected['accuracy_raw']:.4f}\nacc_norm {expected['accuracy']:.4f}\n"


def test_the_harness_has_the_three_kinds_of_requests(model):
    lm = harness().CriaLM(model)
    pairs = [(q["question"], " " + choice) for q in QUESTIONS for choice in q["choices"]]
    together = lm.loglikelihood([Instance(*pair) for pair in pairs])
    assert together == [lm.loglikelihood([pair])[0] for pair in pairs]
    greedy = model.generate("The capital of France is", temperature=0, max_tokens=3, ignore_eos=True)
    tokens = model.tokenize("The capital of France is")
    ((value, is_greedy),) = [
        (scores.logprobs.sum(), list(scores.likeliest) == list(greedy.tokens))
        for scores in model.own_engine.score([(np.concatenate([tokens, greedy.tokens]), len(tokens))])
    ]
    assert is_greedy and value < 0
    # A separate text is scored from its first token, in windows if it is long.
    ((rolling),) = lm.loglikelihood_rolling([Instance("The river rises in the mountains.")])
    assert rolling == lm.loglikelihood([("", "The river rises in the mountains.")])[0][0] < 0
    lm.max_length = 8
    text = "The river rises in the mountains and flows to the sea. " * 2
    windows = lm._windows(text)
    assert sum(len(tokens) - first for tokens, first in windows) == len(model.tokenize(text, special=False))
    assert all(len(tokens) == 9 for tokens, _ in windows)
    lm.max_length = 512
    requests = [Instance("One two three", {"until": [" five"], "max_gen_toks": 12, "do_sample": False}), ("The river", {"max_gen_toks": 4})]
    assert lm.generate_until(requests) == [
        model.generate("One two three", temperature=0, stop=[" five"], max_tokens=12).text,
        model.generate("The river", temperature=0, max_tokens=4).text,
    ]
    # A prompt that is too long: its end, after BOS.
    text = "The river rises in the mountains and flows to the sea. " * 60
    all_tokens, begin = model.tokenize(text), model.tokenize("")
    assert len(all_tokens) > 512
    latest = [*begin, *all_tokens[-(512 - len(begin) - 4) :]]
    assert lm.generate_until([(text, {"max_gen_toks": 4})]) == [model.generate(latest, temperature=0, max_tokens=4).text]
    # If the answer could fill the context, the prompt gets half of it. Markers are read as usual.
    assert lm._latest(text, 4096) == [*begin, *all_tokens[-(256 - len(begin)) :]]
    marked = "<|im_start|>user"
    assert lm._latest(marked, 4) == list(model.tokenize(marked, markers=True)) != list(model.tokenize(marked))


def test_perplexity_over_size():
    out = run("perplexity_over_size.py", SOURCE / "data/cria-demo.md", DEMO, "--windows", 3, "--window", 32)
    with cria.Model(DEMO, n_ctx=32) as model:
        expected = model.perplexity((SOURCE / "data/cria-demo.md").read_bytes(), window=32, max_windows=3)
    assert f"{expected.value:.4f}" in out and f"{DEMO.stat().st_size / 2**20:.2f}" in out


def test_the_package_is_whole(tmp_path):
    """As pip builds it with --no-build-isolation, and unpacks it."""
    source = tmp_path / "python"  # what setuptools writes beside it is not for the tree
    shutil.copytree(SOURCE / "python", source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", build], check=True, capture_output=True, cwd=source)
    (wheel,) = tmp_path.glob("cria-*-py3-none-any.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    code = "import cria; print(cria.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment, cwd=tmp_path).stdout
    assert out == f"{installed}/cria/__init__.py\n" and (installed / "cria/py.typed").exists()
