"""What the tests of the Python package share. They need CRIA (the program), CRIA_LIBRARY, CRIA_SOURCE."""

import os
import pathlib
import subprocess

import cria
import pytest

SOURCE = pathlib.Path(os.environ["CRIA_SOURCE"])
DEMO = SOURCE / "data/cria-demo-Q8_0.gguf"
FRANCE = "What is the capital of France?"


def program(*arguments):
    """What the program writes. A sanitizer's library that this process was started with is not the program's."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run([os.environ["CRIA"], *map(str, arguments)], check=True, capture_output=True, env=environment).stdout


@pytest.fixture(scope="session")
def model():
    with cria.Model(DEMO, n_ctx=512, sequences=3) as loaded:
        yield loaded
