#!/usr/bin/env python3
"""Writes schedule_golden.json: the learning rates of PyTorch's schedulers.

    python3 tests/trainer/make_schedule_golden.py      needs torch

Warm-up is LinearLR from 1 / (warmup + 1) to 1, chained with MultiStepLR, so that both count from
the first step.
"""
import json
import pathlib

import torch
from torch.optim import lr_scheduler


def rates(lr, warmup, milestones, gamma, steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    schedulers = [lr_scheduler.MultiStepLR(optimizer, milestones, gamma)]
    if warmup > 0:
        schedulers.insert(0, lr_scheduler.LinearLR(optimizer, 1 / (warmup + 1), 1.0, warmup))
    schedule = lr_scheduler.ChainedScheduler(schedulers)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


cases = [
    {"lr": 0.1, "warmup": 0, "milestones": [3, 6, 8], "gamma": 0.1, "steps": 10},
    {"lr": 0.4, "warmup": 5, "milestones": [8, 12], "gamma": 0.2, "steps": 16},
    {"lr": 1.0, "warmup": 4, "milestones": [2, 7], "gamma": 0.5, "steps": 10},
]
for case in cases:
    case["rates"] = rates(**case)
path = pathlib.Path(__file__).with_name("schedule_golden.json")
path.write_text("[\n" + ",\n".join("  " + json.dumps(case) for case in cases) + "\n]\n")
