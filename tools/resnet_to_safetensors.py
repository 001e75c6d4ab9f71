#!/usr/bin/env python3
"""Turns a ResNet of PyTorch, timm or transformers into a folder that model.init_from takes.

    python3 tools/resnet_to_safetensors.py resnet50-0676ba61.pth models/resnet50 --image-size 224
    python3 tools/resnet_to_safetensors.py resnet20-12fca82f.th models/resnet20 [--shortcut A]
    python3 tools/resnet_to_safetensors.py FOLDER models/resnet50      a folder of timm or transformers

The file is a pickle or safetensors: a state_dict with torchvision's names, which timm's ResNets
have, too, or with those of transformers' ResNetForImageClassification; or a checkpoint that holds
one as "state_dict", "model" or "model_state_dict"; prefixes "module." and "_orig_mod." are dropped.
So may be ResNets for small images, of 6n + 2 layers in three stages; what these call "linear" and
"shortcut" becomes "fc" and "downsample". Depth, channels and classes follow from the shapes. Only
tensors are unpickled (weights_only).

Where shortcuts have no weights, nothing in the file says which channels a block adds: config.json
says A_centered, half of them on either side as in PyTorch's programs for CIFAR, unless --shortcut A
says that all are behind the others (docs/fine_tuning.md).
Needs: pip install torch safetensors.
"""

import argparse
import json
import pathlib
import re
import sys

DEPTHS = {(False, (2, 2, 2, 2)): 18, (False, (3, 4, 6, 3)): 34, (True, (3, 4, 6, 3)): 50,
          (True, (3, 4, 23, 3)): 101, (True, (3, 8, 36, 3)): 152}
SMALL_CHANNELS = 16  # of the first of three stages


# transformers' names, with torchvision's.
OF_TRANSFORMERS = [
    (r"^resnet\.embedder\.embedder\.convolution\.", "conv1."),
    (r"^resnet\.embedder\.embedder\.normalization\.", "bn1."),
    (r"^resnet\.encoder\.stages\.(\d+)\.layers\.(\d+)\.layer\.(\d+)\.convolution\.",
     lambda at: f"layer{int(at[1]) + 1}.{at[2]}.conv{int(at[3]) + 1}."),
    (r"^resnet\.encoder\.stages\.(\d+)\.layers\.(\d+)\.layer\.(\d+)\.normalization\.",
     lambda at: f"layer{int(at[1]) + 1}.{at[2]}.bn{int(at[3]) + 1}."),
    (r"^resnet\.encoder\.stages\.(\d+)\.layers\.(\d+)\.shortcut\.convolution\.",
     lambda at: f"layer{int(at[1]) + 1}.{at[2]}.downsample.0."),
    (r"^resnet\.encoder\.stages\.(\d+)\.layers\.(\d+)\.shortcut\.normalization\.",
     lambda at: f"layer{int(at[1]) + 1}.{at[2]}.downsample.1."),
    (r"^classifier\.1\.", "fc."),
]


def check_config(path):
    """Refuses what a folder's config.json says of transformers' ResNets that torchvision's don't do."""
    if not path.exists():
        return
    config = json.loads(path.read_text())
    for key, needed in (("hidden_act", "relu"), ("downsample_in_first_stage", False),
                        ("downsample_in_bottleneck", False)):
        if config.get(key, needed) != needed:
            sys.exit(f"{path}: {key}: is {config[key]!r}; only {needed!r} is a ResNet as here")


def read_weights(path):
    if path.is_dir():
        check_config(path / "config.json")
        path /= "model.safetensors"
    if path.suffix == ".safetensors":
        import safetensors.torch

        return safetensors.torch.load_file(path)
    import torch  # takes seconds, which a wrong argument need not wait for

    return torch.load(path, map_location="cpu", weights_only=True)


def name_in_torchvision(name):
    name = name.removeprefix("module.").removeprefix("_orig_mod.")
    for pattern, replacement in OF_TRANSFORMERS:
        name = re.sub(pattern, replacement, name)
    name = re.sub(r"^linear\.", "fc.", name)
    return re.sub(r"^(layer\d\.\d+)\.shortcut\.", r"\1.downsample.", name)


def state_dict_of(checkpoint):
    """The tensors, by torchvision's names."""
    for name in ("state_dict", "model", "model_state_dict"):
        if isinstance(checkpoint.get(name), dict):
            checkpoint = checkpoint[name]
            break
    state = {name_in_torchvision(name): tensor for name, tensor in checkpoint.items()}
    for name in ("conv1.weight", "fc.weight"):
        if name not in state:
            sys.exit(f"no ResNet: it has no tensor {name}")
    return state


def depth_of(state):
    blocks = {}
    for name in state:
        if match := re.match(r"layer(\d)\.(\d+)\.", name):
            blocks.setdefault(int(match[1]), set()).add(match[2])
    bottleneck = "layer1.0.conv3.weight" in state
    form = (bottleneck, tuple(len(blocks[stage]) for stage in sorted(blocks)))
    if len(form[1]) == 3 and len(set(form[1])) == 1 and not bottleneck:
        channels = state["conv1.weight"].shape[0]
        if channels != SMALL_CHANNELS:
            sys.exit(f"a ResNet of 6n + 2 layers begins with {SMALL_CHANNELS} channels, and this "
                     f"one with {channels}")
        depth = 6 * form[1][0] + 2
        if depth in DEPTHS.values():
            sys.exit(f"a ResNet of three stages with {form[1][0]} blocks each has {depth} layers, by which config.json "
                     "would mean the one for large images")
        return depth
    if form not in DEPTHS:
        sys.exit("no ResNet of 18, 34, 50, 101 or 152 layers, and none of 6n + 2 for small images: "
                 f"its stages have {', '.join(map(str, form[1])) or 'no'} blocks"
                 f"{' of three convolutions' if bottleneck else ''}")
    return DEPTHS[form]


def config_of(state, image_size=None, shortcut=None):
    """config.json's members; image_size and shortcut None: as the depth has it."""
    depth = depth_of(state)
    small = depth not in DEPTHS.values()
    config = {"model_type": "resnet", "depth": depth,
              "image_size": image_size or (32 if small else 224),
              "channels": state["conv1.weight"].shape[1], "classes": state["fc.weight"].shape[0]}
    projections = any(".downsample." in name for name in state)
    if shortcut and (projections or not small):
        sys.exit(f"--shortcut {shortcut}: is for ResNets of 6n + 2 layers whose shortcuts have no "
                 "weights; leave it out")
    if small:
        config["shortcut"] = "B" if projections else shortcut or "A_centered"
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=pathlib.Path,
                        help="the .pth, .pt, .th or .safetensors file, or a folder with one of the latter")
    parser.add_argument("folder", type=pathlib.Path, help="to be written")
    parser.add_argument("--image-size", type=int,
                        help="height and width of images; 224 unless given, 32 for 6n + 2 layers")
    parser.add_argument("--shortcut", choices=("A_centered", "A"),
                        help="where the new channels are that shortcuts without weights add: half "
                        "of them on either side (the default), or all behind the others")
    arguments = parser.parse_args()
    state = state_dict_of(read_weights(arguments.weights))
    config = config_of(state, arguments.image_size, arguments.shortcut)
    import safetensors.torch

    arguments.folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in state.items()},
                                arguments.folder / "model.safetensors", metadata={"format": "pt"})
    (arguments.folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    print(f"{arguments.folder}: ResNet-{config['depth']} of {config['classes']} classes" +
          (f", shortcut {config['shortcut']}" if "shortcut" in config else ""))


if __name__ == "__main__":
    main()
