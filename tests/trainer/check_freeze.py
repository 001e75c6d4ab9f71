#!/usr/bin/env python3
"""Trains small models of which a part is frozen, in Plimsoll and in PyTorch (on the CPU, float32).

    bazel build //app:plimsoll
    python3 tests/trainer/check_freeze.py bazel-bin/app/plimsoll

Both start from the same weights, see the same batches, and take the same AdamW steps with clipping.
Compares losses, gradient norms, which only what is trained counts in, and the weights in the end.
Needs: pip install torch transformers.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers

# For each family: its section, and the frozen parameters by Plimsoll's and by Hugging Face's names.
MODELS = {
    "gpt2": ("family: gpt2", "embed.*, block.0.*", ("transformer.wte", "transformer.wpe", "transformer.h.0.")),
    "llama": ("family: llama, kv_heads: 1, ffn_width: 96", "embed.*, block.0.*, '*.norm_2.weight'",
              ("model.embed_tokens", "model.layers.0.", "post_attention_layernorm")),
}
BATCH, SEQUENCE, STEPS = 4, 32, 12
RATE, BETAS, EPS, CLIP = 1e-3, (0.9, 0.95), 1e-6, 1.0
TOLERANCE = 1e-5  # of losses and norms, relative


def run(*command):
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr}")


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                             attn_implementation="eager")


def train(model, tokens):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=BETAS, eps=EPS, weight_decay=0)
    rows = []
    for step in range(STEPS):
        start = step * BATCH * SEQUENCE
        window = tokens[start:start + BATCH * SEQUENCE + 1]
        optimizer.zero_grad()
        logits = model(window[:-1].view(BATCH, SEQUENCE)).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), window[1:])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, CLIP)
        optimizer.step()
        rows.append((loss.item(), norm.item()))
    return rows


def check(plimsoll, family, folder):
    section, frozen, prefixes = MODELS[family]
    text = folder / "text"
    text.write_bytes(bytes(random.Random(3).choices(range(256), k=4096)))
    data = f"data: {{train: {text}, format: text, tokenizer: byte, order: consecutive, eval_fraction: 0}}\n"
    rest = (f"train: {{steps: {STEPS}, micro_batch: {BATCH}, eval_every: 0}}\n"
            f"optimizer: {{lr: {RATE}, betas: [{BETAS[0]}, {BETAS[1]}], eps: {EPS}, weight_decay: 0, "
            f"clip_grad_norm: {CLIP}}}\nschedule: {{name: constant, warmup: 0}}\n"
            "memory: {summary: false}\ndevice: cpu\n")
    (folder / "base.yaml").write_text(
        f"model: {{{section}, layers: 3, width: 32, heads: 2, vocab: 256, sequence: {SEQUENCE}}}\n" + data + rest)
    run(plimsoll, "train", folder / "base.yaml", "--set", f"run.dir={folder}/base", "--set", "train.steps=3")
    base = folder / "base" / "model"
    (folder / "freeze.yaml").write_text(
        f"model: {{init_from: {base}, sequence: {SEQUENCE}}}\n" + data +
        rest.replace("train: {", f"train: {{freeze: [{frozen}], "))
    run(plimsoll, "train", folder / "freeze.yaml", "--set", f"run.dir={folder}/ours")

    model = load(base)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not any(prefix in name for prefix in prefixes)
    tokens = torch.frombuffer(bytearray(text.read_bytes()), dtype=torch.uint8).long()
    theirs = train(model, tokens)
    rows = [json.loads(line) for line in (folder / "ours/metrics.jsonl").read_text().splitlines()]
    worst = max(abs(ours - other) / abs(other) for row, pair in zip(rows, theirs, strict=True)
                for ours, other in zip((row["loss"], row["grad_norm"]), pair))
    ours = dict(load(folder / "ours/model").named_parameters())
    before = dict(load(base).named_parameters())
    far, kept = 0.0, 0
    for name, parameter in model.named_parameters():
        far = max(far, (ours[name] - parameter).abs().max().item())
        if not parameter.requires_grad:
            kept += 1
            if not torch.equal(ours[name], before[name]):
                sys.exit(f"{family}: {name} is frozen and has changed")
        elif torch.equal(ours[name], before[name]):
            sys.exit(f"{family}: {name} is trained and has not changed")
    print(f"{family}: {kept} tensors frozen; losses and norms of {STEPS} steps within {worst:.1e}, "
          f"weights within {far:.1e}")
    return worst < TOLERANCE and far < RATE / 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll", type=pathlib.Path)
    plimsoll = parser.parse_args().plimsoll.resolve()
    good = True
    for family in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            good = check(plimsoll, family, pathlib.Path(folder)) and good
    sys.exit(0 if good else "they differ")


if __name__ == "__main__":
    main()
