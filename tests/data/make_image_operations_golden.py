#!/usr/bin/env python3
"""Writes testdata/image_operations.json: what torchvision's RandAugment makes of small images.

    python3 tests/data/make_image_operations_golden.py      needs torchvision (0.20.1)

A line is one case: an operation by its name, strength, sign, size, and the bytes before and after,
[H,W,C] in hexadecimal.
"""
import json
import pathlib

import torch
from torchvision.transforms import InterpolationMode, autoaugment

NAMES = {"Color": "Saturation"}


def cases():
    generator = torch.Generator().manual_seed(3)
    for height, width, channels in ((9, 12, 3), (16, 16, 1)):
        # Smooth, so that an image has few values more than once, and all of its range.
        noise = torch.rand(channels, height, width, generator=generator)
        ramp = torch.linspace(0, 1, height * width).view(height, width)
        image = ((0.5 * noise + 0.4 * ramp) * 255).to(torch.uint8)
        space = autoaugment.RandAugment()._augmentation_space(31, (height, width))
        for name, (magnitudes, signed) in space.items():
            for strength in (9, 23) if magnitudes.ndim > 0 else (9,):
                for sign in (1, -1) if signed else (1,):
                    magnitude = float(magnitudes[strength]) if magnitudes.ndim > 0 else 0.0
                    after = autoaugment._apply_op(image, name, sign * magnitude,
                                                  InterpolationMode.NEAREST, [0.0] * channels)
                    yield {"operation": NAMES.get(name, name), "strength": strength, "sign": sign,
                           "size": [height, width, channels], "before": hexadecimal(image),
                           "after": hexadecimal(after)}


def hexadecimal(image):
    return bytes(image.permute(1, 2, 0).flatten().tolist()).hex()


path = pathlib.Path(__file__).parent / "testdata" / "image_operations.json"
path.parent.mkdir(exist_ok=True)
path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases()) + "\n]\n")
