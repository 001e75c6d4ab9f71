#!/usr/bin/env python3
"""Writes sliding_window_golden.json: segmentations of MONAI's sliding_window_inference.

    python3 tests/trainer/make_sliding_window_golden.py      needs torch and monai

Voxel n of a volume is n. A window's logits of class k are (k + 1) · voxel + 10 · k · i, with i the
voxel's number in the window: they differ between windows.
"""
import json
import pathlib

import torch
from monai.data.utils import compute_importance_map
from monai.inferers import sliding_window_inference

CLASSES = 2


def predict(windows):
    place = torch.arange(windows[0].numel(), dtype=torch.float32).reshape(windows.shape[1:])
    return torch.cat([(k + 1) * windows + 10 * k * place for k in range(CLASSES)], dim=1)


cases = [
    {"volume": [5, 9, 12], "patch": [8, 4, 5], "overlap": 0.5},
    {"volume": [7, 5, 6], "patch": [3, 5, 4], "overlap": 0.25},
    {"volume": [4, 6, 7], "patch": [1, 4, 4], "overlap": 0.7},
    {"volume": [3, 5, 4], "patch": [4, 8, 7], "overlap": 0.5},
]
for case in cases:
    count = torch.tensor(case["volume"]).prod().item()
    volume = torch.arange(count, dtype=torch.float32).reshape([1, 1] + case["volume"])
    merged = sliding_window_inference(
        volume, case["patch"], 1, predict, overlap=case["overlap"], mode="gaussian"
    )
    weights = compute_importance_map(case["patch"], mode="gaussian")
    case["weights"] = [float(f"{w:.7g}") for w in weights.flatten().tolist()]
    by_voxel = merged[0].permute(1, 2, 3, 0).flatten().tolist()
    case["logits"] = [float(f"{value:.7g}") for value in by_voxel]
path = pathlib.Path(__file__).with_name("sliding_window_golden.json")
path.write_text("[\n" + ",\n".join("  " + json.dumps(case) for case in cases) + "\n]\n")
