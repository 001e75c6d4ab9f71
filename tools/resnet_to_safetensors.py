#!/usr/bin/env python3
"""Turns a ResNet's PyTorch pickle into a folder that model.init_from takes.

    python3 tools/resnet_to_safetensors.py resnet50-0676ba61.pth models/resnet50 --image-size 224

The pickle is a state_dict with torchvision's names, which timm's ResNets have, too, or a checkpoint
that holds one as "state_dict", "model" or "model_state_dict"; a prefix "module." is dropped. Depth,
channels and classes follow from the shapes. Only tensors are unpickled (weights_only).
Needs: pip install torch safetensors.
"""

import argparse
import json
import pathlib
import re
import sys

import safetensors.torch
import torch

DEPTHS = {(False, (2, 2, 2, 2)): 18, (False, (3, 4, 6, 3)): 34, (True, (3, 4, 6, 3)): 50,
          (True, (3, 4, 23, 3)): 101, (True, (3, 8, 36, 3)): 152}


def state_dict_of(path):
    state = torch.load(path, map_location="cpu", weights_only=True)
    for name in ("state_dict", "model", "model_state_dict"):
        if isinstance(state.get(name), dict):
            state = state[name]
            break
    return {name.removeprefix("module."): tensor.contiguous() for name, tensor in state.items()}


def depth_of(state):
    blocks = [set(), set(), set(), set()]
    for name in state:
        if match := re.match(r"layer([1-4])\.(\d+)\.", name):
            blocks[int(match[1]) - 1].add(match[2])
    form = ("layer1.0.conv3.weight" in state, tuple(map(len, blocks)))
    if form not in DEPTHS:
        sys.exit(f"no ResNet of 18, 34, 50, 101 or 152 layers: its stages have {form[1]} blocks")
    return DEPTHS[form]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pickle", type=pathlib.Path, help="the .pth or .pt file")
    parser.add_argument("folder", type=pathlib.Path, help="to be written")
    parser.add_argument("--image-size", type=int, default=224, help="height and width of images")
    arguments = parser.parse_args()
    state = state_dict_of(arguments.pickle)
    config = {"model_type": "resnet", "depth": depth_of(state), "image_size": arguments.image_size,
              "channels": state["conv1.weight"].shape[1], "classes": state["fc.weight"].shape[0]}
    arguments.folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(state, arguments.folder / "model.safetensors",
                                metadata={"format": "pt"})
    (arguments.folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    print(f"{arguments.folder}: ResNet-{config['depth']} of {config['classes']} classes")


if __name__ == "__main__":
    main()
