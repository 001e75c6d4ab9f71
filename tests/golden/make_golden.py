"""Makes the reference trajectories in tests/golden/data with PyTorch and transformers (float32).

    pip install torch transformers
    python tests/golden/make_golden.py [NAME…]      all, or those named: qwen3 mistral phi3
                                                    llama-yarn gemma2 gemma3

Each is small enough to live in the repository, and odd enough to tell layouts apart: widths that
are no multiples of 8, grouped-query heads, a sequence shorter than the model's, few steps.
"""
import json
import pathlib
import shutil
import sys

import numpy
import torch
from safetensors.torch import save_file
from transformers import (Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig,
                          GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

FOLDER = pathlib.Path(__file__).parent / "data"
OPTIMIZER = {"name": "adamw", "lr": 3e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1,
             "clip_grad_norm": 1.0}
VOCAB = 61


def gpt2():
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCAB, n_positions=32, n_embd=20, n_layer=2, n_head=2,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def llama():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
        tie_word_embeddings=False, rms_norm_eps=1e-5))


def qwen2():
    return Qwen2ForCausalLM(Qwen2Config(
        vocab_size=VOCAB, hidden_size=24, intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=32,
        tie_word_embeddings=True, rms_norm_eps=1e-6))


def qwen3():  # heads · head_dim is not the model's width
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=VOCAB, hidden_size=20, intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=10, max_position_embeddings=32,
        tie_word_embeddings=True, rms_norm_eps=1e-6))


def mistral():  # a sequence is longer than the window
    return MistralForCausalLM(MistralConfig(
        vocab_size=VOCAB, hidden_size=20, intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, head_dim=12, max_position_embeddings=32,
        sliding_window=9, tie_word_embeddings=False, rms_norm_eps=1e-5))


def phi3():  # six of a head's eight elements turn, and a sequence is longer than the original ones
    return Phi3ForCausalLM(Phi3Config(
        vocab_size=VOCAB, hidden_size=24, intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=64,
        original_max_position_embeddings=16, sliding_window=9, pad_token_id=None,
        bos_token_id=None, eos_token_id=None,
        rope_parameters={"rope_type": "longrope", "rope_theta": 500.0,
                         "partial_rotary_factor": 0.75, "short_factor": [1.0, 1.25, 1.75],
                         "long_factor": [1.5, 3.0, 7.5]},
        tie_word_embeddings=False, rms_norm_eps=1e-5))


def llama_yarn():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=64,
        rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
                         "original_max_position_embeddings": 16},
        tie_word_embeddings=True, rms_norm_eps=1e-5))


# A window in some layers, shorter than the sequence; scores divided by another number than the width
# of a head. A padding token's embedding would not learn.
GEMMA = dict(vocab_size=VOCAB, hidden_size=20, intermediate_size=36, num_attention_heads=4,
             num_key_value_heads=2, head_dim=10, max_position_embeddings=32, sliding_window=9,
             query_pre_attn_scalar=6, pad_token_id=None, bos_token_id=None, eos_token_id=None,
             tie_word_embeddings=True, attn_implementation="eager")


def gemma2():  # caps low enough to count
    return Gemma2ForCausalLM(Gemma2Config(
        **GEMMA, num_hidden_layers=2, attn_logit_softcapping=0.5, final_logit_softcapping=0.7))


def gemma3():
    return Gemma3ForCausalLM(Gemma3TextConfig(
        **GEMMA, num_hidden_layers=3, layer_types=["sliding_attention", "full_attention",
                                                   "sliding_attention"],
        rope_parameters={
            "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=500.0),
            "sliding_attention": dict(rope_type="default", rope_theta=50.0)}))


def parameters_on_disk(model):
    """Every weight once: a tied head is the embedding."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def make(name, model, batch, sequence, accumulate, steps, logits=False):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model.train()
    for p in model.parameters():  # biases and norms away from 0 and 1, so that they are tested too
        if p.dim() == 1:
            p.data += 0.1 * torch.randn_like(p)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)

    # Text-like data: each token follows from the one before, with noise.
    generator = numpy.random.default_rng(7)
    count = steps * accumulate * batch * sequence + 1
    tokens = [0]
    for _ in range(count - 1):
        follows = (tokens[-1] * 5 + 3) % VOCAB
        tokens.append(follows if generator.random() < 0.7 else int(generator.integers(VOCAB)))
    tokens = numpy.array(tokens, dtype="<u2")
    tokens.tofile(folder / "tokens.bin")

    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    if logits:  # of the first row, at each position
        with torch.no_grad():
            row = torch.from_numpy(tokens[:sequence].astype("int64"))
            save_file({"logits": model(row[None]).logits[0].contiguous()}, folder / "logits.safetensors")
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": OPTIMIZER["weight_decay"]},
         {"params": rest, "weight_decay": 0.0}],
        lr=OPTIMIZER["lr"], betas=OPTIMIZER["betas"], eps=OPTIMIZER["eps"])
    records = []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for micro in range(accumulate):
            start = (step * accumulate + micro) * batch * sequence
            window = torch.from_numpy(tokens[start:start + batch * sequence + 1].astype("int64"))
            logits = model(window[:-1].view(batch, sequence)).logits
            loss = torch.nn.functional.cross_entropy(
                logits.view(-1, VOCAB), window[1:]) / accumulate
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER["clip_grad_norm"])
        optimizer.step()
        records.append({"step": step, "loss": total, "grad_norm": norm.item()})

    save_file(parameters_on_disk(model), folder / "final.safetensors")
    expected = {"batch": batch, "sequence": sequence, "vocab": VOCAB, "accumulate": accumulate,
                "optimizer": OPTIMIZER, "torch": torch.__version__, "steps": records}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def main():
    torch.set_num_threads(1)
    named = set(sys.argv[1:])
    torch.manual_seed(11)
    if not named:
        make("gpt2", gpt2(), batch=3, sequence=24, accumulate=1, steps=10)
        make("gpt2-accumulate", gpt2(), batch=2, sequence=16, accumulate=3, steps=10)
        make("llama", llama(), batch=3, sequence=24, accumulate=1, steps=10)
        make("qwen2", qwen2(), batch=2, sequence=32, accumulate=2, steps=10)
    for name, (seed, model) in {"qwen3": (12, qwen3), "mistral": (13, mistral), "phi3": (14, phi3),
                                "llama-yarn": (15, llama_yarn), "gemma2": (14, gemma2),
                                "gemma3": (15, gemma3)}.items():
        if named and name not in named:
            continue
        torch.manual_seed(seed)
        make(name, model(), batch=3, sequence=24, accumulate=2, steps=10, logits=True)


if __name__ == "__main__":
    main()
