#!/usr/bin/env python3
"""cria as a model for lm-evaluation-harness, or without it: log-likelihoods of continuations.

    harness.py MODEL --tasks arc_easy,hellaswag [--limit N]     where lm-evaluation-harness is installed (pip install lm-eval)
    harness.py MODEL --choices QUESTIONS                        questions as `cria perplexity --choices` takes them, a line of JSON each

Texts that begin alike (the choices of a question, the examples before it) are read once.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Dict, Iterable, List, Sequence, Tuple

import cria

try:  # a subclass where the harness asks for one
    from lm_eval.api.model import LM as _Base
except ImportError:
    _Base = object


def arguments_of(request: Any) -> Tuple[Any, ...]:
    """Returns the arguments of an Instance of the harness, or the arguments themselves."""
    return tuple(getattr(request, "args", request))


class CriaLM(_Base):  # type: ignore[misc]
    """The three requests of the harness to a model."""

    def __init__(self, model: cria.Model, max_gen_toks: int = 256) -> None:
        super().__init__()
        self.model = model
        self.engine = model.own_engine
        self.max_length = self.engine.n_ctx
        self.max_gen_toks = max_gen_toks
        begin = model.tokenize("")[:1]  # BOS, where the model wants one
        self._begin: List[int] = begin.tolist()
        first = [token for token in (*self._begin, model.bos, model.eos) if token is not None]
        self._before_all: List[int] = first[:1]  # what a text is conditioned on that has nothing before it

    def loglikelihood(self, requests: Iterable[Any], disable_tqdm: bool = False) -> List[Tuple[float, bool]]:
        """For (context, continuation): the log-probability of the continuation, and True if greedy sampling gives it."""
        texts = [self._pair(*arguments_of(request)) for request in requests]
        scores = self.engine.score(texts)
        return [
            (float(s.logprobs.sum()), list(s.likeliest) == tokens[first:])
            for (tokens, first), s in zip(texts, scores)
        ]

    def loglikelihood_rolling(self, requests: Iterable[Any], disable_tqdm: bool = False) -> List[float]:
        """For (text,): the sum over all tokens, each given the tokens before it in its window."""
        windows = [self._windows(*arguments_of(request)) for request in requests]
        scores = iter(self.engine.score([window for text in windows for window in text]))
        return [float(sum(next(scores).logprobs.sum() for _ in text)) for text in windows]

    def generate_until(self, requests: Iterable[Any], disable_tqdm: bool = False) -> List[str]:
        """For (context, {"until": texts, "max_gen_toks": n, "do_sample": …, "temperature": …}): the continuation."""
        return [answer.text for answer in self.engine.batch(self._generation(*arguments_of(request)) for request in requests)]

    def _generation(self, context: str, how: Dict[str, Any]) -> Dict[str, Any]:
        until = how.get("until", [])
        sampled = how.get("do_sample", float(how.get("temperature", 0)) > 0)
        most = how.get("max_gen_toks", self.max_gen_toks)
        return {
            "prompt": self._latest(context, most),
            "stop": [until] if isinstance(until, str) else until,
            "max_tokens": most,
            "temperature": float(how.get("temperature", 1)) if sampled else 0,
            "seed": 0,
        }

    def _latest(self, context: str, answer: int) -> List[int]:
        """Returns the tokens of a prompt, without the oldest if prompt and answer exceed the context. The prompt gets at
        least half of the context."""
        tokens = [int(token) for token in self.model.tokenize(context, markers=True)]
        begin = len(self._begin)
        room = self.max_length - begin - min(answer, self.max_length // 2)
        return tokens[:begin] + tokens[begin:][-room:]

    def _tokens(self, text: str) -> List[int]:
        return self._begin + [int(token) for token in self.model.tokenize(text, special=False)]

    def _pair(self, context: str, continuation: str) -> Tuple[List[int], int]:
        """Returns all tokens and the index of the first one of the continuation. White space at the end of the context
        belongs to the continuation, as does a token across the border."""
        bare = context.rstrip()
        if bare:
            tokens = self._tokens(context + continuation)
            alone = self._tokens(bare)
            first = next((i for i, (one, other) in enumerate(zip(tokens, alone)) if one != other), len(alone))
        else:
            tokens = self._before_all + self._tokens(context + continuation)[len(self._begin) :]
            first = len(self._before_all)
        cut = max(0, len(tokens) - self.max_length - 1)  # the oldest of a context that is too long
        return tokens[cut:], max(1, min(first, len(tokens)) - cut)

    def _windows(self, text: str) -> List[Tuple[List[int], int]]:
        """Returns adjacent windows; the last one is as long as the others."""
        tokens = self._before_all + self._tokens(text)[len(self._begin) :]
        windows = []
        for begin in range(1, len(tokens), self.max_length):
            end = min(len(tokens), begin + self.max_length)
            before = max(0, end - self.max_length - 1)
            windows.append((tokens[before:end], begin - before))
        return windows


def accuracy(lm: CriaLM, questions: Sequence[Dict[str, Any]]) -> Tuple[float, float]:
    """Returns the shares of questions whose right choice is the most likely: in total, and per byte."""
    pairs = [(q["question"], " " + choice) for q in questions for choice in q["choices"]]
    values = iter(lm.loglikelihood(pairs))
    right = [0, 0]
    for question in questions:
        choices = question["choices"]
        log_p = [next(values)[0] for _ in choices]
        per_byte = [p / len(choice.encode()) for p, choice in zip(log_p, choices)]
        for i, figures in enumerate((log_p, per_byte)):
            right[i] += figures.index(max(figures)) == question["answer"]
    return right[0] / len(questions), right[1] / len(questions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--tasks", help="of the harness, with commas between")
    parser.add_argument("--limit", type=int, help="so many questions of each task")
    parser.add_argument("--choices", help="a file of questions")
    parser.add_argument("-c", "--n-ctx", type=int, default=0)
    parser.add_argument("--sequences", type=int, default=16, help="texts at once (%(default)s)")
    args = parser.parse_args()
    if (args.tasks is None) == (args.choices is None):
        parser.error("one of --tasks and --choices is needed")
    with cria.Model(args.model, n_ctx=args.n_ctx, sequences=args.sequences) as model:
        lm = CriaLM(model)
        if args.choices is not None:
            with open(args.choices, encoding="utf-8") as file:
                questions = [json.loads(line) for line in file if line.strip()]
            by_sum, by_byte = accuracy(lm, questions)
            print(f"acc {by_sum:.4f}\nacc_norm {by_byte:.4f}")
            return
        if _Base is object:
            sys.exit("harness.py: --tasks needs lm-evaluation-harness (pip install lm-eval)")
        import lm_eval

        results = lm_eval.simple_evaluate(model=lm, tasks=args.tasks.split(","), limit=args.limit)
        print(json.dumps(results["results"], indent=2))


if __name__ == "__main__":
    main()
