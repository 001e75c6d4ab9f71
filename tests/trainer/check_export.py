#!/usr/bin/env python3
"""Loads what `plimsoll export` writes with Hugging Face's transformers (PyTorch on the CPU).

    bazel build //app:plimsoll
    python3 tests/trainer/check_export.py bazel-bin/app/plimsoll

Trains a small model of every family in bf16, exports a snapshot in the middle in every type, and
compares the loss on a text in transformers with that of `plimsoll eval`, and the text's tokens.
tests/models/check_with_transformers.py compares logits, also of these folders: --keep DIR keeps them.
Needs: pip install torch transformers.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

TOKENIZERS = pathlib.Path(__file__).parents[1] / "data/tokenizers"
MODELS = {
    "gpt2": "family: gpt2, vocab: 640",
    "llama": "family: llama, vocab: 768, kv_heads: 1, ffn_width: 96",
    "qwen2": "family: qwen2, vocab: 768, kv_heads: 1, ffn_width: 96, tied: true",
    "qwen3": "family: qwen3, vocab: 768, kv_heads: 1, head_width: 24, ffn_width: 96, tied: true",
    "phi3": "family: phi3, vocab: 768, kv_heads: 1, ffn_width: 96, window: 32",
    "mistral": "family: mistral, vocab: 768, kv_heads: 1, ffn_width: 96, window: 32",
    "gemma2": "family: gemma2, vocab: 768, kv_heads: 1, ffn_width: 96, window: 9",
    "gemma3_text": "family: gemma3_text, vocab: 768, kv_heads: 1, ffn_width: 96, window: 9, "
                   "window_pattern: 2, rope_type: linear, rope_factor: 8",
}
SEQUENCE = 32
# Relative to the loss. Both sum in different orders; in 16 bits they also round at different
# places.
TOLERANCE = {"fp32": 5e-6, "bf16": 1e-3, "fp16": 2e-4}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def run(*command):
    result = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr}")
    return result.stdout


def loss_of(folder, dtype, tokens):
    """Mean over windows that do not overlap, as `plimsoll eval` takes them."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype="auto", attn_implementation="eager", output_loading_info=True)
    wrong = {key: list(names) for key, names in info.items() if names}
    if wrong or model.dtype != DTYPES[dtype]:
        sys.exit(f"{folder}: loaded as {model.dtype}, with {wrong}")
    windows = (len(tokens) - 1) // SEQUENCE
    ids = torch.tensor(tokens[:windows * SEQUENCE]).view(windows, SEQUENCE)
    targets = torch.tensor(tokens[1:windows * SEQUENCE + 1])
    with torch.no_grad():
        logits = model.eval()(ids).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets).item()


def tokens_in(file):
    return torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint16).tolist()


def check(plimsoll, family, folder):
    text = folder / "text"
    text.write_text("".join(f"One, two, three: number {i} is alive.\n" for i in range(300)))
    style = {"llama": "llama3", "qwen3": "qwen2", "mistral": "llama3", "phi3": "llama3", "gemma2": "llama3",
             "gemma3_text": "llama3"}.get(family, family)
    tokenizer = TOKENIZERS / f"{style}_style.json"
    config = folder / "run.yaml"
    config.write_text(f"""
model: {{{MODELS[family]}, layers: 2, width: 64, heads: 2, sequence: {SEQUENCE}}}
data: {{train: {text}, format: text, tokenizer: {tokenizer}}}
train: {{steps: 30, stop_after: 25, micro_batch: 4, eval_every: 0, threads: 1}}
optimizer: {{lr: 1e-2}}
amp: {{dtype: bf16}}
memory: {{summary: false, calibrate: false}}
save: {{every: 20}}
device: cpu
run: {{dir: {folder / 'run'}}}
""")
    run(plimsoll, "train", config)
    run(plimsoll, "data", "tokenize", text, "--out", folder / "tokens", "--tokenizer", tokenizer,
        "--no-end-of-text")
    (data,) = (folder / "tokens").glob("train_*.bin")
    tokens = tokens_in(data)

    good = True
    for dtype in DTYPES:
        target = folder / dtype
        run(plimsoll, "export", folder / "run", "--step", 20, "--to", target, "--dtype", dtype)
        ours = json.loads(run(plimsoll, "eval", target, "--data", data, "--sequence", SEQUENCE,
                              "--dtype", dtype, "--json"))["loss"]
        theirs = loss_of(target, dtype, tokens)
        difference = abs(ours - theirs) / theirs
        ids = transformers.AutoTokenizer.from_pretrained(target)(
            text.read_text(), add_special_tokens=False)["input_ids"]
        same = difference < TOLERANCE[dtype] and ids == tokens
        good = good and same
        print(f"{'ok    ' if same else 'FAILED'} {family} {dtype}: loss {ours:.6f}, in transformers "
              f"{theirs:.6f} (by {difference:.1e}); {len(tokens)} tokens "
              f"{'alike' if ids == tokens else 'DIFFER'}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plimsoll", help="the built //app:plimsoll")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="work in this folder")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as temporary:
        results = []
        for family in MODELS:
            folder = (arguments.keep or pathlib.Path(temporary)) / family
            folder.mkdir(parents=True)
            results.append(check(arguments.plimsoll, family, folder))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
