#!/usr/bin/env python3
"""Times PyTorch's training step of one model on one GPU: torch.compile, fused AdamW (SGD for
ResNets and U-Nets), flash attention, autocast over float32 weights (or bf16 weights and moments), gradients
clipped to norm 1, but for these. Random data, the same in each step. Prints one line of JSON;
started by cuda_against_pytorch.py, and a row of a study (configs/studies/gpt2-124m.yaml).

With --wait it says "ready" after the warm-up and measures when a line arrives on standard input, so
that several can compile side by side.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import time

import torch

import peer_models


def process_bytes():
    """What the driver says that this process holds on the GPU; None where it does not say."""
    answer = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        capture_output=True, text=True)
    for line in answer.stdout.splitlines():
        pid, _, mib = line.partition(",")
        if pid.strip() == str(os.getpid()) and mib.strip().isdigit():
            return int(mib) << 20
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=peer_models.names(), metavar="MODEL",
                        help=f"of {', '.join(peer_models.names())}")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--checkpoint", action="store_true", help="recompute each block")
    parser.add_argument("--weights", choices=["fp32", "bf16"], default="fp32",
                        help="fp32: under autocast; bf16: weights, gradients and moments in bf16")
    parser.add_argument("--dtype", choices=["bf16", "fp16", "tf32", "fp32"], default="bf16",
                        help="of autocast (fp16 with a GradScaler), or none: tf32 or strict fp32")
    parser.add_argument("--dropout", type=float, default=0.0, metavar="P",
                        help="on embeddings, attention and branches (GPT-2, BERT, ViT)")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--graphs", action="store_true", help="torch.compile's mode reduce-overhead: CUDA graphs")
    parser.add_argument("--wait", action="store_true")
    args = parser.parse_args()
    if not 0 <= args.dropout < 1:
        parser.error(f"--dropout {args.dropout}: give a probability below 1")
    if args.dropout and not peer_models.has_dropout(args.model):
        parser.error(f"--dropout: {args.model} has none; leave it out")

    torch.manual_seed(1)
    strict = args.dtype == "fp32"
    torch.set_float32_matmul_precision("highest" if strict else "high")
    torch.backends.cudnn.allow_tf32 = not strict
    torch.backends.cudnn.benchmark = True
    with torch.device("cuda"):
        model, flops_per_token = peer_models.build(args.model, args.vocab, args.sequence,
                                                   args.checkpoint, args.dropout)
        inputs, targets = peer_models.batch(args.model, args.batch, args.sequence, args.vocab)
    if args.weights == "bf16":
        model = model.to(torch.bfloat16)
    model.train()
    convolutional = peer_models.is_convolutional(args.model)
    optimizer = (peer_models.sgd_for if convolutional else peer_models.optimizer_for)(model, 1e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=args.dtype == "fp16")
    loss_of = model if args.no_compile else torch.compile(model, mode="reduce-overhead" if args.graphs else None)
    parameters = list(model.parameters())

    def step():
        low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(args.dtype)
        autocast = (torch.autocast("cuda", dtype=low) if low and args.weights == "fp32"
                    else contextlib.nullcontext())
        with autocast:
            loss = loss_of(inputs, targets)
        scaler.scale(loss).backward()
        if not convolutional:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss

    start = time.perf_counter()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    compile_seconds = time.perf_counter() - start
    if args.wait:
        print("ready", flush=True)
        sys.stdin.readline()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        loss = step()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(args.steps + 1)]
    marks[0].record()
    for mark in marks[1:]:
        loss = step()
        mark.record()
    torch.cuda.synchronize()
    times = sorted(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))
    ms = times[len(times) // 2]
    samples = 1 if peer_models.sees_images(args.model) else args.sequence
    rate = args.batch * samples / ms * 1e3  # images, or tokens
    print(json.dumps({
        "step_ms": ms, "step_ms_low": times[len(times) // 4],
        "step_ms_high": times[3 * len(times) // 4], "fastest_ms": times[0], "slowest_ms": times[-1], "tokens_per_s": rate,
        "model_flops_per_token": flops_per_token, "loss": loss.item(),
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "process_bytes": process_bytes(),
        "warmup_s": compile_seconds, "version": f"PyTorch {torch.__version__}",
        "device": torch.cuda.get_device_name()}), flush=True)


if __name__ == "__main__":
    main()
