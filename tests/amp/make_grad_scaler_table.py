#!/usr/bin/env python3
"""Makes tests/amp/testdata/grad_scaler.txt: what torch.amp.GradScaler does to its scale.

Needs torch (written with 2.15): python3 make_grad_scaler_table.py [FILE]. Each case is a line
"case INIT_SCALE GROWTH_FACTOR BACKOFF_FACTOR GROWTH_INTERVAL" and four words per step: the largest
gradient of the step ("1", "inf" or "nan"), whether the optimizer stepped, and the scale and the
growth tracker afterwards.
"""
import pathlib
import sys

import torch

# Steps, by their gradients: "." finite, "i" infinite, "n" not a number.
OVERFLOWS = {
    "never": "." * 12,
    "at the start": "iiii........",
    "always": "i" * 12,
    "one by one": ".i.i.i.i.i.i",
    "just before it grows": "...i...n...i....",
    "just after it grew": "....i....i.....n",
    "mixed": "..n.....ii......nin....i...........",
}
OPTIONS = [
    (65536.0, 2.0, 0.5, 4),
    (65536.0, 2.0, 0.5, 1),
    (2.0**126, 2.0, 0.5, 3),  # grows until it would be infinite
    (1000.0, 1.7, 0.3, 3),  # rounds
    (65536.0, 2.0, 0.5, 2000),
]
GRADIENTS = {".": 1.0, "i": float("inf"), "n": float("nan")}


def run(options, pattern):
    init_scale, growth_factor, backoff_factor, growth_interval = options
    scaler = torch.amp.GradScaler("cpu", init_scale, growth_factor, backoff_factor, growth_interval)
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    for step in pattern:
        # As after backward() of the scaled loss; only the first element overflows.
        scaler.scale(torch.zeros(()))
        parameter.grad = torch.ones(3)
        parameter.grad[0] = GRADIENTS[step]
        before = parameter.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        stepped = int(not torch.equal(parameter.detach(), before))
        yield GRADIENTS[step], stepped, scaler.get_scale(), scaler.state_dict()["_growth_tracker"]


def main():
    default = pathlib.Path(__file__).parent / "testdata" / "grad_scaler.txt"
    with open(sys.argv[1] if len(sys.argv) > 1 else default, "w") as out:
        for options in OPTIONS:
            for pattern in OVERFLOWS.values():
                print("case", *(f"{value:.9g}" for value in options),
                      *(f"{gradient:g} {stepped} {scale:.9g} {tracker}"
                        for gradient, stepped, scale, tracker in run(options, pattern)), file=out)


if __name__ == "__main__":
    main()
