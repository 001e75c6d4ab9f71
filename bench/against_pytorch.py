#!/usr/bin/env python3
"""Plimsoll beside PyTorch on this machine's CPU: the same GPT-2, batch and optimizer, float32.

    pip install torch transformers
    bazel build //bench:step && python3 bench/against_pytorch.py [--batch 4] [--sequence 256]

Each runs in a process of its own, one after the other; printed are tokens/s, the process's peak
resident memory, and the ratios. PyTorch is a peer to compare with, not a dependency.
"""
import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pytorch(args):
    """One process: trains, prints a line of JSON."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=50304, n_positions=1024, n_embd=768, n_layer=12, n_head=12, resid_pdrop=0,
        embd_pdrop=0, attn_pdrop=0, attn_implementation="sdpa"))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=True)
    tokens = torch.randint(50304, (args.batch, args.sequence))
    targets = torch.randint(50304, (args.batch, args.sequence))

    def loss_of(x, y):
        logits = model(x).logits
        return torch.nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))

    if args.compile:
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(tokens, targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()
    step()
    seconds = []
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    median = sorted(seconds)[len(seconds) // 2]
    print(json.dumps({
        "step_ms": median * 1e3,
        "tokens_per_s": args.batch * args.sequence / median,
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "version": torch.__version__}))


def plimsoll(args):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(
            [args.binary, "configs/models/gpt2-124m.yaml", "--steps", str(args.steps),
             "--set", f"train.micro_batch={args.batch}", "--set", f"model.sequence={args.sequence}",
             "--set", f"train.threads={args.threads}", "--json", file.name],
            check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        return json.loads(pathlib.Path(file.name).read_text())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=len(__import__("os").sched_getaffinity(0)))
    parser.add_argument("--compile", action="store_true", help="torch.compile the peer")
    parser.add_argument("--binary", default=str(ROOT / "bazel-bin/bench/step"))
    parser.add_argument("--pytorch-only", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.pytorch_only:
        pytorch(args)
        return
    ours = plimsoll(args)
    peer = json.loads(subprocess.run(
        [sys.executable, __file__, "--pytorch-only"] + sys.argv[1:], check=True,
        capture_output=True, text=True).stdout.splitlines()[-1])
    gib = 1 << 30
    print(f"GPT-2 124M, batch {args.batch}, sequence {args.sequence}, {args.threads} threads, float32")
    print(f"{'':<24}{'ms a step':>12}{'tokens/s':>12}{'peak GiB':>12}")
    for name, row in (("plimsoll", ours), (f"PyTorch {peer['version']}", peer)):
        print(f"{name:<24}{row['step_ms']:>12.0f}{row['tokens_per_s']:>12.1f}"
              f"{row['peak_resident_bytes'] / gib:>12.2f}")
    print(f"{'ratio':<24}{peer['step_ms'] / ours['step_ms']:>12.2f}"
          f"{ours['tokens_per_s'] / peer['tokens_per_s']:>12.2f}"
          f"{ours['peak_resident_bytes'] / peer['peak_resident_bytes']:>12.2f}")
    print(f"plimsoll's step runs at {100 * ours['share_of_gemm']:.1f} % of the best float32 GEMM rate "
          f"measured beside it ({ours['gemm_gflops']:.0f} GFLOP/s)")


if __name__ == "__main__":
    main()
