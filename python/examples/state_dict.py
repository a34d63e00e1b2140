#!/usr/bin/env python3
"""The weights of a GGUF file as a state dict: numpy arrays by their Hugging Face names, as PyTorch's load_state_dict() wants them.

    state_dict.py MODEL

Names and the order of rows of queries and keys are those of `cria export`, which writes safetensors; arrays of a file are views of its
mapping. With PyTorch: `model.load_state_dict({name: torch.from_numpy(array) for name, array in to_state_dict(file).items()})`.
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import tempfile
from typing import Any, Dict

import numpy as np
import numpy.typing as npt

DTYPES = {"F32": "<f4", "F16": "<f2"}


def read_safetensors(path: pathlib.Path) -> Dict[str, npt.NDArray[Any]]:
    """Returns the arrays of a safetensors file; they keep it mapped."""
    data = np.memmap(path, dtype=np.uint8, mode="c")
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    header = json.loads(data[8 : 8 + length].tobytes())
    arrays = {}
    for name, about in header.items():
        if name != "__metadata__":
            begin, end = about["data_offsets"]
            arrays[name] = data[8 + length + begin : 8 + length + end].view(DTYPES[about["dtype"]]).reshape(about["shape"])
    return arrays


def to_state_dict(model: pathlib.Path, dtype: str = "f32") -> Dict[str, npt.NDArray[Any]]:
    """Returns all weights of a model, as f32 or f16. CRIA names the program where it is not in PATH."""
    program = os.environ.get("CRIA", "cria")
    with tempfile.TemporaryDirectory() as directory:
        target = pathlib.Path(directory) / "model"
        subprocess.run([program, "export", str(model), "-o", str(target), "--type", dtype], check=True)
        arrays = {}
        for file in sorted(target.glob("*.safetensors")):
            arrays.update(read_safetensors(file))  # stays mapped after it is removed
        return arrays


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    for name, array in to_state_dict(parser.parse_args().model).items():
        print(f"{name:60} {array.dtype} {list(array.shape)}")
