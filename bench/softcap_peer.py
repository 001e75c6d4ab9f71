#!/usr/bin/env python3
"""What a soft cap of attention's scores costs, next to PyTorch's FlexAttention: one table, on one GPU.

    python3 bench/softcap_peer.py --cases > cases.json
    bazel run --config=cuda //bench:op -- --device cuda --cases $PWD/cases.json --csv > caps.csv
    python3 bench/softcap_peer.py caps.csv [--no-pytorch] > table.md

Each shape is timed by bench/op as plain causal attention and with scores that become 50 tanh(score / 50)
(Gemma 2), some with a window. FlexAttention computes the same from a score_mod of torch.tanh, compiled,
with a block mask. Its backward pass adds in any order. bf16; milliseconds, forward and backward.
"""
import argparse
import csv
import json
import pathlib
import sys

from attention_peer import median_ms

CAP = 50.0
# rows, tokens of a row, heads, heads of keys and values, width of a head, window
SHAPES = {
    "Gemma 2 2B": (2, 4096, 8, 4, 256, None),
    "Gemma 2 9B": (1, 8192, 16, 8, 256, None),
    "Gemma 2 9B, window of 4096": (1, 8192, 16, 8, 256, 4096),
    "Gemma 2 27B": (1, 8192, 32, 16, 128, None),
    "heads of 64": (8, 4096, 12, 12, 64, None),
}
PASSES = ("forward", "backward")


def cases():
    """For bench/op, with and without the cap."""
    for name, (rows, tokens, heads, kv_heads, width, window) in SHAPES.items():
        qkv, out = [rows, tokens, (heads + 2 * kv_heads) * width], [rows, tokens, heads * width]
        for cap in (0, CAP):
            attributes = {"heads": heads, "kv_heads": kv_heads, "causal": True, "dropout": 0, "type": "bf16"}
            attributes |= {"softcap": cap} if cap else {}
            attributes |= {"window": window} if window else {}
            text = f"{name}/{cap:g}"
            yield {"case": f"{text} forward", "op": "attention", **attributes, "in": [qkv, None]}
            yield {"case": f"{text} backward", "op": "attention_backward", **attributes,
                   "in": [qkv, out, [rows, heads, tokens], out, None]}


def read_times(lines):
    """Milliseconds by the case's text, as bench/op --csv printed them."""
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return {row["case"].split(":")[0]: 1e-3 * float(row["us"]) for row in rows}


def measure(rows, tokens, heads, kv_heads, width, window):
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    torch._dynamo.reset()  # each shape has kernels of its own
    q, k, v = (torch.randn((rows, tokens, n, width), device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
               for n in (heads, kv_heads, kv_heads))

    def cap(score, b, h, i, j):
        return CAP * torch.tanh(score / CAP)

    def seen(b, h, i, j):
        return (i >= j) & (i - j < window) if window else i >= j

    mask = create_block_mask(seen, None, None, tokens, tokens, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)

    def forward():
        return compiled(q, k, v, score_mod=cap, block_mask=mask, enable_gqa=heads != kv_heads)

    out = forward()
    dout = torch.randn_like(out)
    return {"forward": median_ms(forward),
            "backward": median_ms(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", type=pathlib.Path, nargs="?", help="what bench/op --csv printed")
    parser.add_argument("--cases", action="store_true", help="print the cases for bench/op")
    parser.add_argument("--no-pytorch", action="store_true", help="our times alone")
    args = parser.parse_args()
    if args.cases:
        print("[\n" + ",\n".join(json.dumps(case) for case in cases()) + "\n]")
        return
    if args.times is None:
        parser.error("TIMES: which? (--cases prints the cases for bench/op)")
    ours = read_times(args.times.read_text().splitlines())
    print("| heads (of keys) × width, tokens, rows | no cap | soft cap | FlexAttention, soft cap |\n|---|---|---|---|")
    for name, (rows, tokens, heads, kv_heads, width, window) in SHAPES.items():
        theirs = "–"
        if not args.no_pytorch:
            try:
                times = measure(rows, tokens, heads, kv_heads, width, window)
                theirs = ", ".join(f"{times[way]:.3f}" for way in PASSES)
            except Exception as error:  # a kernel may not fit into shared memory
                print(f"{name}: {error}", file=sys.stderr)
                theirs = "none"
        own = [", ".join(f"{ours[f'{name}/{cap:g} {way}']:.3f}" for way in PASSES) for cap in (0, CAP)]
        print(f"| {name}: {heads} ({kv_heads}) × {width}, {tokens:,}, {rows} | {own[0]} | {own[1]} | {theirs} |", flush=True)


if __name__ == "__main__":
    main()
