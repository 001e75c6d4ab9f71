#!/usr/bin/env python3
"""Times PyTorch's example of a DCGAN (two losses, two Adams, one forward pass of the generator for
both) on one GPU, in eager mode as the example is. Random data, the same in each step. Prints one
line of JSON; configs/models/dcgan-64.yaml is the same step.

    bench/dcgan_peer.py --size 64 --batch 128 [--dtype fp16] [--recipe] [--limit 8GiB]

--recipe empties PyTorch's cache and collects garbage behind each step. --limit lets PyTorch's allocator
have what the process may take beside the context; where that is too little it frees what it has
cached, and fails where that is too little as well. Expandable segments are set by PyTorch's own
PYTORCH_CUDA_ALLOC_CONF.
"""
import argparse
import contextlib
import gc
import json
import os

import torch
from torch import nn
from torch.nn import functional as F

from cuda_peer import process_bytes

CHANNELS, LATENT, FEATURES = 3, 100, 64


def generator(size):
    layers, inputs = [], LATENT
    blocks = (size // 4).bit_length() - 1
    for i in range(blocks):
        outputs = FEATURES << (blocks - 1 - i)
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, 2 if i else 1, 1 if i else 0, bias=False),
                   nn.BatchNorm2d(outputs), nn.ReLU(True)]
        inputs = outputs
    return nn.Sequential(*layers, nn.ConvTranspose2d(inputs, CHANNELS, 4, 2, 1, bias=False),
                         nn.Tanh())


def discriminator(size):
    layers, inputs = [], CHANNELS
    for i in range((size // 4).bit_length() - 1):
        outputs = FEATURES << i
        layers += [nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(outputs)] if i else []
        layers += [nn.LeakyReLU(0.2, inplace=True)]
        inputs = outputs
    return nn.Sequential(*layers, nn.Conv2d(inputs, 1, 4, 1, 0, bias=False))


def limit_bytes(text):
    return int(float(text.removesuffix("GiB")) * (1 << 30))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dtype", choices=["bf16", "fp16", "tf32", "fp32"], default="fp32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--recipe", action="store_true")
    parser.add_argument("--limit", type=limit_bytes)
    args = parser.parse_args()
    if args.limit:
        torch.zeros(1, device="cuda")
        context = process_bytes() - torch.cuda.memory_reserved()
        torch.cuda.set_per_process_memory_fraction(
            (args.limit - context) / torch.cuda.get_device_properties(0).total_memory)
    strict = args.dtype == "fp32"
    torch.set_float32_matmul_precision("highest" if strict else "high")
    torch.backends.cudnn.allow_tf32 = not strict
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    make, judge = (net(args.size).cuda().to(memory_format=layout)
                   for net in (generator, discriminator))
    optimizers = [torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
                  for net in (judge, make)]
    scalers = [torch.amp.GradScaler("cuda", enabled=args.dtype == "fp16") for _ in optimizers]
    real = torch.randn(args.batch, CHANNELS, args.size, args.size, device="cuda").to(
        memory_format=layout)
    noise = torch.randn(args.batch, LATENT, 1, 1, device="cuda")
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(args.dtype)

    def said(images, target):
        with torch.autocast("cuda", dtype=low) if low else contextlib.nullcontext():
            logits = judge(images).flatten()
        return F.binary_cross_entropy_with_logits(logits.float(), torch.full_like(logits, target).float())

    def step():
        judge.zero_grad()
        scalers[0].scale(said(real, 1.0)).backward()
        with torch.autocast("cuda", dtype=low) if low else contextlib.nullcontext():
            fake = make(noise)
        scalers[0].scale(said(fake.detach(), 0.0)).backward()
        scalers[0].step(optimizers[0])
        scalers[0].update()
        make.zero_grad()
        loss = said(fake, 1.0)
        scalers[1].scale(loss).backward()
        scalers[1].step(optimizers[1])
        scalers[1].update()
        if args.recipe:
            del fake
            gc.collect()
            torch.cuda.empty_cache()
        return loss

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(args.steps + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    times = sorted(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))
    print(json.dumps({
        "step_ms": round(times[len(times) // 2], 3),
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(), "process_bytes": process_bytes(),
        "config": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
        "version": f"PyTorch {torch.__version__}", "device": torch.cuda.get_device_name()}))


if __name__ == "__main__":
    main()
