"""cria: LLaMA-family language models from GGUF files on CPUs.

    model = cria.Model("model.gguf")
    for piece in model.chat("What is the capital of France?", stream=True):
        print(piece, end="")
"""

from typing import TYPE_CHECKING, Any

from . import _foreign
from ._answer import Answer, Stream, ToolCall
from ._engine import Engine, Perplexity, Scores, Sequence
from ._gguf import Difference, DType, GGUFFile, GGUFWriter, Tensor, dequantize, dtype, quantize
from ._library import Error, isa
from ._library import version as __version__
from ._model import Model
from ._options import Constraint

__all__ = [
    "Answer",
    "Constraint",
    "DType",
    "Difference",
    "Engine",
    "Error",
    "GGUFFile",
    "GGUFWriter",
    "Model",
    "Perplexity",
    "Scores",
    "Sequence",
    "Stream",
    "Tensor",
    "ToolCall",
    "dequantize",
    "dtype",
    "isa",
    "quantize",
]

if not TYPE_CHECKING:  # checkers of types name unknown attributes themselves

    def __getattr__(name: str) -> Any:
        _foreign.reject_import(name)
