#!/usr/bin/env python3
"""Makes a second model to judge quantizers by: a dense Llama model with tied embeddings, changed so that it computes the same.

    PYTHONPATH=python CRIA_LIBRARY=build/release/libcria.so bench/second_model.py IN.gguf OUT.gguf

OUT has its own output matrix, a few channels of every matrix's inputs that are 4 to 32 times larger than the others, four experts
of which two answer each token, and rows of ffn_down that are a third longer. All factors are powers of two, and the experts are the
feed-forward network with its units in another order, so in exact arithmetic OUT computes what IN does. The seed is fixed.
"""

import argparse
from typing import Dict, Tuple

import numpy as np

import cria

EXPERTS, USED, OUTLIERS = 4, 2, 6
rng = np.random.default_rng(57)


def factors(n: int, repeats: int = 1) -> np.ndarray:
    """1 but for a few channels of n; each of them `repeats` times in a row."""
    f = np.ones(n, np.float32)
    f[rng.choice(n, OUTLIERS, replace=False)] = 2.0 ** rng.integers(2, 6, OUTLIERS)
    return np.repeat(f, repeats)


def experts(gate: np.ndarray, up: np.ndarray, down: np.ndarray) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Copies of a feed-forward network: other orders of units, other outliers, and a third more units that nothing reads."""
    units = gate.shape[0]
    more = units // 3 // 256 * 256
    stacks = []
    for _ in range(EXPERTS):
        order = rng.permutation(units + more)
        mixed = [w[rng.integers(units, size=(2, more))].mean(0).astype(np.float32) for w in (gate, up)]
        scale = factors(units + more)
        stacks.append((np.concatenate([gate, mixed[0]])[order],
                       np.concatenate([up, mixed[1]])[order] * scale[:, None],
                       np.concatenate([down, np.zeros((down.shape[0], more), np.float32)], 1)[:, order] / scale))
    return tuple(np.stack(parts) for parts in zip(*stacks))


def transformed(w: Dict[str, np.ndarray], layers: int, heads: int, kv_heads: int) -> Dict[str, np.ndarray]:
    out = {"token_embd.weight": w["token_embd.weight"]}
    scale = factors(w["output_norm.weight"].size)
    out["output_norm.weight"] = w["output_norm.weight"] * scale
    out["output.weight"] = w.get("output.weight", w["token_embd.weight"]) / scale
    for layer in range(layers):
        get = lambda name: w[f"blk.{layer}.{name}.weight"]
        put = lambda name, value: out.__setitem__(f"blk.{layer}.{name}.weight", value)
        attention, feed_forward = factors(get("attn_norm").size), factors(get("ffn_norm").size)
        values = factors(get("attn_v").shape[0])
        pairs = factors(get("attn_k").shape[0] // 2, 2)  # RoPE turns pairs of neighbours
        dim, group = get("attn_k").shape[0] // kv_heads, heads // kv_heads
        for_queries = lambda f: np.repeat(f.reshape(kv_heads, 1, dim), group, 1).reshape(-1)
        put("attn_norm", get("attn_norm") * attention)
        put("attn_q", get("attn_q") / attention / for_queries(pairs)[:, None])
        put("attn_k", get("attn_k") / attention * pairs[:, None])
        put("attn_v", get("attn_v") / attention * values[:, None])
        put("attn_output", get("attn_output") / for_queries(values))
        put("ffn_norm", get("ffn_norm") * feed_forward)
        gate, up, down = experts(get("ffn_gate") / feed_forward, get("ffn_up") / feed_forward, get("ffn_down"))
        put("ffn_gate_inp", (rng.normal(0, 0.1, (EXPERTS, feed_forward.size)) / feed_forward).astype(np.float32))
        put("ffn_gate_exps", gate)
        put("ffn_up_exps", up)
        put("ffn_down_exps", down)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("output")
    args = parser.parse_args()
    with cria.GGUFFile(args.model) as file, cria.GGUFWriter(args.output) as writer:
        weights = {name: tensor.dequantize() for name, tensor in file.tensors.items()}
        tensors = transformed(weights, file.fields["llama.block_count"], file.fields["llama.attention.head_count"],
                              file.fields["llama.attention.head_count_kv"])
        writer.copy_fields(file, without=("llama.feed_forward_length", "general.file_type"))
        writer.set("llama.feed_forward_length", tensors["blk.0.ffn_up_exps.weight"].shape[1], "uint32")
        writer.set("llama.expert_count", EXPERTS, "uint32")
        writer.set("llama.expert_used_count", USED, "uint32")
        writer.set("general.file_type", 1, "uint32")
        for name, values in tensors.items():
            plain = values.ndim == 1 or name.endswith("gate_inp.weight")
            writer.add_tensor(name, np.ascontiguousarray(values, np.float32), "F32" if plain else "F16")
        writer.write()


main()
