"""Names of llama-cpp-python, transformers and vLLM, and what takes their place here."""

from __future__ import annotations

import sys
from typing import Iterable, Mapping, NoReturn

_CPU = "cria computes on the CPU; leave it out"
_CLI = "cria.Model(FILE) opens a GGUF file; `cria convert DIR -o FILE` makes one of a Hugging Face model"

# Each key lists names that have one hint.
_ARGUMENTS: Mapping[str, str] = {
    "n_gpu_layers main_gpu tensor_split split_mode offload_kqv device device_map gpu_layers flash_attn": _CPU,
    "gpu_memory_utilization tensor_parallel_size torch_dtype dtype n_ubatch": _CPU,
    "ctx ctx_size context_length max_model_len max_seq_len num_ctx": "use n_ctx=",
    "n_threads num_threads thread_count": "use threads=",
    "n_threads_batch": "use threads_prefill=",
    "batch_size": "use n_batch=",
    "max_num_seqs n_parallel n_seq_max": "use sequences=",
    "type_k type_v cache_type_k cache_type_v kv_cache_dtype": 'use kv_type= ("f16", "f32" or "q8_0")',
    "enable_prefix_caching cache": "use prefix_cache=",
    "draft_model speculative_model": "use draft=, another Model",
    "lora_path lora_adapters": "use loras=[FILE] or [(FILE, scale)]",
    "use_mmap": "use mmap=",
    "use_mlock": "use mlock=",
    "model_path filename": "the file is the first argument",
    "repo_id": "cria does not download models; the file is the first argument",
    "chat_format chat_handler": "the file's chat template is used; apply_template() shows what it makes",
    "embedding embeddings logits_all vocab_only verbose": "leave it out; embed() and logits() need no option",
    "temp": "use temperature=",
    "max_new_tokens n_predict num_predict max_length max_completion_tokens": "use max_tokens=",
    "stop_sequences stop_words stop_strings": "use stop=",
    "repetition_penalty": "use repeat_penalty=",
    "response_format json_schema guided_json format": "use schema= (a dict, JSON or a class of pydantic's)",
    "guided_regex": "use regex=",
    "guided_grammar": "use grammar=",
    "system system_prompt instructions": 'put {"role": "system", "content": …} first among the messages',
    "top_logprobs": "use logprobs=",
    "do_sample": "temperature=0 takes the most likely token",
    "chat_template_kwargs enable_thinking think": 'use variables={"enable_thinking": …}',
    "functions function_call": "use tools=",
    "num_beams n best_of num_return_sequences": "an answer has one text; batch() makes several",
}
_ATTRIBUTES: Mapping[str, str] = {
    "from_pretrained Llama AutoModelForCausalLM AutoModel AutoTokenizer LLM pipeline load load_model": _CLI,
    "create_chat_completion invoke": "use chat(messages)",
    "create_completion complete": "use generate(prompt)",
    "SamplingParams GenerationConfig": "chat() and generate() take temperature=, max_tokens= and so on",
    "LlamaGrammar": 'cria.Constraint("grammar", text) is a grammar, as is grammar= of an answer',
    "create_embedding": "use embed(text)",
    "encode": "use tokenize(text), or embed(text) for a vector",
    "tokenizer": "use tokenize(text) and detokenize(tokens)",
    "eval sample reset save_state load_state": "own_engine.sequence() is a state, in which own_engine.forward() evaluates tokens",
    "set_seed": "chat() and generate() take seed=",
    "set_cache": "common prefixes are kept without it (prefix_cache= of the model)",
    "decode": "use detokenize(tokens)",
    "apply_chat_template": "use apply_template(messages)",
    "n_ctx context_length": "own_engine.n_ctx is its context, and n_ctx_train the one that it was trained for",
    "token_bos bos_token_id": "use bos",
    "token_eos eos_token_id": "use eos",
    "metadata config": "cria.GGUFFile(FILE).fields has the metadata",
    "to cuda half": _CPU,
    "choices content message generated_text": "use text",
    "finish_reason": "use stop_reason",
    "usage": "use prompt_tokens and len(tokens)",
}


def _hints(rows: Mapping[str, str]) -> Mapping[str, str]:
    return {name: hint for names, hint in rows.items() for name in names.split()}


_argument_hints, _attribute_hints = _hints(_ARGUMENTS), _hints(_ATTRIBUTES)


def reject_arguments(names: Iterable[str]) -> None:
    """Raises TypeError for an argument of another library, with the name that it has here."""
    for name in names:
        if name in _argument_hints:
            raise TypeError(f"{name}: unknown argument; {_argument_hints[name]}")


def reject_attribute(owner: str, name: str) -> NoReturn:
    """Raises AttributeError, with the name that an attribute of another library has here."""
    hint = f"; {_attribute_hints[name]}" if name in _attribute_hints else ""
    raise AttributeError(f"{owner} has no attribute {name!r}{hint}")


def reject_import(name: str) -> NoReturn:
    """Raises AttributeError for an attribute of the package; ImportError with its hint in `from cria import NAME`."""
    if name in _attribute_hints and sys._getframe(2).f_code.co_name == "_handle_fromlist":
        raise ImportError(f"cannot import name {name!r} from 'cria'; {_attribute_hints[name]}", name=name)
    reject_attribute("module 'cria'", name)


def reject_call() -> NoReturn:
    raise TypeError("'Model' object is not callable; use generate(prompt) or chat(messages)")


def reject_item(name: object) -> NoReturn:
    """Raises TypeError for answer["choices"]."""
    hint = f"; {_attribute_hints[name]}" if isinstance(name, str) and name in _attribute_hints else ""
    raise TypeError(f"'Answer' object is not subscriptable{hint}")
