#!/usr/bin/env python3
"""Compares checkpoints and forward passes with Hugging Face's transformers (PyTorch on the CPU).

    bazel build //tests/models:forward
    python3 tests/models/check_with_transformers.py bazel-bin/tests/models/forward [FOLDER ...]

For each FOLDER (by default for small random models of every family and option) it
  1. runs the checkpoint in both programs: logits and loss must agree;
  2. reads and writes it with Plimsoll, and runs the copy in transformers: logits must be equal.
With --write-fixtures DIR it writes the small models, with their logits, as the folders that
transformers_test.cc reads. Needs: pip install torch transformers.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

TOLERANCE = 5e-6  # of the largest logit; float32 sums in another order
TOKENS = 12


def small_models():
    """Name -> config. Sizes differ where they may, so that no two can be mistaken."""
    gpt2 = dict(n_layer=2, n_embd=12, n_head=3, n_positions=16, vocab_size=19,
                bos_token_id=None, eos_token_id=None)
    llama = dict(num_hidden_layers=2, hidden_size=12, num_attention_heads=4,
                 num_key_value_heads=2, head_dim=6, intermediate_size=20,
                 max_position_embeddings=16, vocab_size=19, bos_token_id=None, eos_token_id=None)
    # With this original length some of the rotary frequencies are stretched, some are interpolated
    # and some stay.
    scaling = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=60)
    qwen2 = {k: v for k, v in llama.items() if k != "head_dim"} | dict(
        num_attention_heads=3, num_key_value_heads=1)
    yarn = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=60)
    # Six of a head's eight elements turn.
    phi3 = dict(num_hidden_layers=2, hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
                intermediate_size=20, max_position_embeddings=48, vocab_size=19,
                bos_token_id=None, eos_token_id=None, pad_token_id=None)
    longrope = dict(rope_type="longrope", rope_theta=500.0, partial_rotary_factor=0.75,
                    short_factor=[1.0, 1.25, 1.75], long_factor=[1.5, 3.0, 7.5])
    # Layers with and without a window, which is shorter than the text; caps that scores and logits
    # come near to; scores divided by another number than the width of a head.
    gemma = llama | dict(num_hidden_layers=3, sliding_window=5, query_pre_attn_scalar=9)
    full, sliding = "full_attention", "sliding_attention"
    return {
        "gpt2": transformers.GPT2Config(**gpt2),
        "gpt2-erf-untied": transformers.GPT2Config(
            **gpt2, activation_function="gelu", n_inner=20, layer_norm_epsilon=1e-3,
            tie_word_embeddings=False),
        "llama": transformers.LlamaConfig(**llama),
        "llama-scaled-biased-tied": transformers.LlamaConfig(
            **llama, rope_parameters=scaling | dict(rope_theta=500.0), attention_bias=True,
            tie_word_embeddings=True),
        "llama-linear": transformers.LlamaConfig(
            **llama, rope_parameters=dict(rope_type="linear", factor=2.5, rope_theta=500.0)),
        "qwen2": transformers.Qwen2Config(
            **qwen2, rope_parameters=dict(rope_type="default", rope_theta=1e6),
            tie_word_embeddings=True),
        "qwen3": transformers.Qwen3Config(
            **llama, rope_parameters=dict(rope_type="default", rope_theta=1e6),
            tie_word_embeddings=True),
        "qwen3-biased": transformers.Qwen3Config(**llama, attention_bias=True),
        "mistral": transformers.MistralConfig(**llama, sliding_window=None),
        "mistral-windowed": transformers.MistralConfig(**llama, sliding_window=TOKENS),
        "llama-yarn": transformers.LlamaConfig(
            **llama, rope_parameters=yarn | dict(rope_theta=500.0)),
        "qwen2-yarn": transformers.Qwen2Config(
            **qwen2, rope_parameters=yarn | dict(
                rope_theta=500.0, attention_factor=0.8, beta_fast=4.0, beta_slow=2.0,
                truncate=False)),
        "qwen3-yarn-mscale": transformers.Qwen3Config(
            **llama, rope_parameters=yarn | dict(
                rope_theta=500.0, mscale=2.0, mscale_all_dim=0.5)),
        "llama-longrope": transformers.LlamaConfig(
            **llama, rope_parameters={k: v for k, v in longrope.items()
                                      if k != "partial_rotary_factor"} | dict(
                original_max_position_embeddings=TOKENS - 1)),
        "phi3-windowed-tied": transformers.Phi3Config(
            **phi3, sliding_window=5, tie_word_embeddings=True),
        "phi3-short": transformers.Phi3Config(
            **phi3, rope_parameters=longrope, original_max_position_embeddings=TOKENS),
        "phi3-long": transformers.Phi3Config(
            **phi3, rope_parameters=longrope, original_max_position_embeddings=TOKENS - 1),
        "phi3-long-factor": transformers.Phi3Config(
            **phi3, rope_parameters=longrope | dict(attention_factor=0.9),
            original_max_position_embeddings=TOKENS - 1),
        "gemma2": transformers.Gemma2Config(
            **gemma, attn_logit_softcapping=3.0, final_logit_softcapping=2.0),
        "gemma2-biased-untied": transformers.Gemma2Config(
            **gemma, attn_logit_softcapping=None, final_logit_softcapping=None,
            attention_bias=True, tie_word_embeddings=False,
            layer_types=[full, sliding, sliding],
            rope_parameters=dict(rope_type="linear", factor=2.5, rope_theta=500.0)),
        "gemma3": transformers.Gemma3TextConfig(**gemma, sliding_window_pattern=3),
        "gemma3-scaled-capped": transformers.Gemma3TextConfig(
            **gemma, final_logit_softcapping=2.0, layer_types=[sliding, full, sliding],
            rope_parameters={full: dict(rope_type="linear", factor=8.0, rope_theta=500.0),
                             sliding: dict(rope_type="default", rope_theta=50.0)}),
    }


def make_small_model(config, seed):
    """Weights large enough that every part of the model matters; biases and norms not trivial."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.4)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def run_transformers(folder, tokens):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.tensor([tokens])
    with torch.no_grad():
        output = model(ids, labels=ids)
    return output.logits[0], output.loss.item()


def tokens_for(folder):
    vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    return torch.randint(0, vocab, (TOKENS,), generator=torch.Generator().manual_seed(1)).tolist()


def check(program, folder):
    tokens = tokens_for(folder)
    logits, loss = run_transformers(folder, tokens)
    ours = json.loads(subprocess.run(
        [program, folder, *map(str, tokens)], check=True, capture_output=True, text=True).stdout)
    scale = logits.abs().max().item()
    difference = (torch.tensor(ours["logits"]) - logits).abs().max().item() / scale
    loss_difference = abs(ours["loss"] - loss) / loss
    with tempfile.TemporaryDirectory() as copy:
        subprocess.run([program, "--copy", folder, copy], check=True)
        copied, _ = run_transformers(copy, tokens)
    same = torch.equal(copied, logits)
    good = difference < TOLERANCE and loss_difference < TOLERANCE and same
    print(f"{'ok    ' if good else 'FAILED'} {folder}: logits differ by {difference:.1e} of the "
          f"largest ({scale:.3g}), loss by {loss_difference:.1e}; the written copy gives "
          f"{'the same' if same else 'OTHER'} logits")
    return good


def write_small_models(target, with_expectations):
    folders = []
    for seed, (name, config) in enumerate(small_models().items()):
        folder = target / name
        make_small_model(config, seed).save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        if with_expectations:
            tokens = tokens_for(folder)
            logits, loss = run_transformers(folder, tokens)
            (folder / "expected.json").write_text(json.dumps(
                {"tokens": tokens, "loss": loss,
                 "logits": [round(x, 6) for x in logits.flatten().tolist()]}) + "\n")
        folders.append(folder)
    return folders


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", help="the built //tests/models:forward")
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--write-fixtures", type=pathlib.Path, metavar="DIR")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    if arguments.write_fixtures:
        write_small_models(arguments.write_fixtures, with_expectations=True)
    if not arguments.program:
        return 0
    with tempfile.TemporaryDirectory() as small:
        folders = arguments.folders or write_small_models(pathlib.Path(small), False)
        results = [check(arguments.program, folder) for folder in folders]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
