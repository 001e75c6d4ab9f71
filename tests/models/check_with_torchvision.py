#!/usr/bin/env python3
"""Compares ResNets with torchvision's (PyTorch on the CPU).

    bazel build //tests/models:forward
    python3 tests/models/check_with_torchvision.py bazel-bin/tests/models/forward

For each model of torchvision, with weights of formula() below, it
  1. runs it in both programs: logits must agree;
  2. reads and writes it with Plimsoll, and loads the copy into torchvision by its strict rules:
     tensors and logits must be equal.
With --write-golden DIR it writes names, shapes and logits as the files that torchvision_test.cc
reads; the weights are too large to be kept, so that the test makes them by the same formula.
Needs: pip install torch torchvision safetensors.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy
import safetensors.numpy
import safetensors.torch
import torch
import torchvision

TOLERANCE = 1e-5  # of the largest logit; float32 sums in another order
MODELS = {18: 64, 50: 48}  # depth -> height and width of the image
CLASSES = 10


def uniform(name, count):
    """Numbers in [-1, 1) that depend on name and position alone (splitmix64 of FNV-1a)."""
    seed = 0xcbf29ce484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001b3 % 2**64
    with numpy.errstate(over="ignore"):
        x = numpy.uint64(seed) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(
            0x9e3779b97f4a7c15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xbf58476d1ce4e5b9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94d049bb133111eb)
        x ^= x >> numpy.uint64(31)
    return (x >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-52 - 1


def formula(name, shape):
    """A tensor of a state_dict: every part of the model matters, and none dominates."""
    if name.endswith("num_batches_tracked"):
        return torch.tensor(1000 + len(name), dtype=torch.int64)
    values = uniform(name, math.prod(shape))
    if len(shape) > 1:
        values *= math.sqrt(6 / math.prod(shape[1:]))
    elif name.endswith("running_var") or name.endswith(".weight"):
        values = 1 + 0.5 * values
        if name.endswith(".bn3.weight"):  # or rounding grows with every block
            values *= 0.05
    else:
        values *= 0.3
    return torch.from_numpy(values.astype(numpy.float32).reshape(shape))


def make(depth):
    model = getattr(torchvision.models, f"resnet{depth}")(num_classes=CLASSES)
    model.load_state_dict({name: formula(name, list(tensor.shape))
                           for name, tensor in model.state_dict().items()})
    return model.eval()


def image_of(size):
    """[1,H,W,3], as Plimsoll reads images."""
    return torch.from_numpy(uniform("image", size * size * 3).astype(numpy.float32)).reshape(
        1, size, size, 3)


def logits_of(model, size):
    with torch.no_grad():
        return model(image_of(size).permute(0, 3, 1, 2))[0]


def config_of(depth, size):
    return {"model_type": "resnet", "depth": depth, "image_size": size, "classes": CLASSES}


def write_golden(folder):
    for depth, size in MODELS.items():
        model = make(depth)
        case = {
            "config": config_of(depth, size),
            "names": list(model.state_dict()),
            "shapes": [" ".join(map(str, tensor.shape)) for tensor in model.state_dict().values()]}
        logits = numpy.array([round(x, 6) for x in logits_of(model, size).tolist()])
        safetensors.numpy.save_file({"logits": logits}, folder / f"resnet{depth}.safetensors",
                                    metadata={"case": json.dumps(case)})


def check(program, depth, size):
    model = make(depth)
    logits = logits_of(model, size)
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        for folder in ("original", "copy"):
            (made / folder).mkdir()
        safetensors.torch.save_file(model.state_dict(), made / "original/model.safetensors")
        (made / "original/config.json").write_text(json.dumps(config_of(depth, size)))
        image_of(size).numpy().tofile(made / "image")
        ours = json.loads(subprocess.run(
            [program, "--image", made / "original", made / "image"],
            check=True, capture_output=True, text=True).stdout)
        subprocess.run([program, "--copy", made / "original", made / "copy"], check=True)
        copied = getattr(torchvision.models, f"resnet{depth}")(num_classes=CLASSES).eval()
        state = safetensors.torch.load_file(made / "copy/model.safetensors")
        copied.load_state_dict(state, strict=True)
        equal = all(torch.equal(state[name], tensor) and state[name].dtype == tensor.dtype
                    for name, tensor in model.state_dict().items())
    scale = logits.abs().max().item()
    difference = (torch.tensor(ours["logits"]) - logits).abs().max().item() / scale
    same = equal and torch.equal(logits_of(copied, size), logits)
    good = difference < TOLERANCE and same
    print(f"{'ok    ' if good else 'FAILED'} resnet{depth}: logits differ by {difference:.1e} of "
          f"the largest ({scale:.3g}); the written copy has {'the same' if same else 'OTHER'} "
          "tensors and logits")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", help="the built //tests/models:forward")
    parser.add_argument("--write-golden", type=pathlib.Path, metavar="DIR")
    arguments = parser.parse_args()
    if arguments.write_golden:
        write_golden(arguments.write_golden)
    if not arguments.program:
        return 0
    results = [check(arguments.program, depth, size) for depth, size in MODELS.items()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
