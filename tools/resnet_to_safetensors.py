#!/usr/bin/env python3
"""Turns a ResNet of PyTorch, timm or transformers into a folder that model.init_from takes.

    python3 tools/resnet_to_safetensors.py resnet50-0676ba61.pth models/resnet50 --image-size 224
    python3 tools/resnet_to_safetensors.py resnet20-12fca82f.th models/resnet20 [--shortcut A]
    python3 tools/resnet_to_safetensors.py FOLDER models/resnet50      a folder of timm or transformers

The file is a pickle or safetensors: a state_dict with torchvision's names, which timm's ResNets
have, too, or with those of transformers' ResNetForImageClassification; or a checkpoint that holds
one as "state_dict", "model" or "model_state_dict"; prefixes "module." and "_orig_mod." are dropped.
What a config.json next to it says is done or refused by name: problem type and names of classes are
kept, a preprocessor_config.json is copied, or made of timm's pretrained_cfg.
So may be ResNets for small images, of 6n + 2 layers in three stages; what these call "linear" and
"shortcut" becomes "fc" and "downsample". Depth, channels and classes follow from the shapes. Only
tensors are unpickled (weights_only).

Where shortcuts have no weights, nothing in the file says which channels a block adds: config.json
says A_centered, half of them on either side as in PyTorch's programs for CIFAR, unless --shortcut A
says that all are behind the others (docs/other_weights.md).
Needs: pip install torch safetensors.
"""

import argparse
import pathlib
import pickle
import re
import sys

import classifier_folder

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


# What timm's function may be called with: the tensors say it (None), or these values.
TIMM_ARGUMENTS = {"num_classes": None, "in_chans": None, "img_size": None, "zero_init_last": None,
                  "global_pool": ("avg", "fast"), "output_stride": (32,), "drop_rate": (0, None),
                  "drop_path_rate": (0, None), "drop_block_rate": (0, None), "block_args": (None, {}),
                  "pretrained": (False, True), "cardinality": (1,), "base_width": (64,), "stem_width": (64,),
                  "stem_type": ("",), "act_layer": ("relu", None), "aa_layer": (None, ""), "avg_down": (False,)}
# What transformers' config.json may say.
TRANSFORMERS_KEYS = (("hidden_act", "relu"), ("downsample_in_first_stage", False),
                     ("downsample_in_bottleneck", False), ("quantization_config", None), ("auto_map", None))


def check_config(path, config):
    """Refuses what config.json next to the weights says that torchvision's ResNets don't do."""
    if "architecture" in config and "depth" not in config:
        name = classifier_folder.architecture_of(config)
        known = [f"resnet{depth}" for depth in DEPTHS.values()]
        if name not in known:
            sys.exit(f"{path}: architecture: is {name!r}, a model of timm, of which only {', '.join(known)} can be "
                     "converted")
        classifier_folder.check_arguments(path, config, TIMM_ARGUMENTS)
        return
    if config.get("model_type") != "resnet":
        sys.exit(f"{path}: model_type: is {config.get('model_type')!r}; only 'resnet' of transformers and timm's "
                 "'architecture' can be converted")
    if "depth" in config:
        sys.exit(f"{path}: is of a folder of Plimsoll, which model.init_from takes as it is")
    for key, needed in TRANSFORMERS_KEYS:
        if config.get(key, needed) != needed:
            sys.exit(f"{path}: {key}: is {config[key]!r}; only {needed!r} is a ResNet as here")


def read_weights(path):
    if path.suffix == ".safetensors":
        import safetensors.torch

        return classifier_folder.load_safetensors(safetensors.torch.load_file, path)
    import torch  # takes seconds, which a wrong argument need not wait for

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        sys.exit(f"{path}: is no pickle of tensors alone, and others can run any program when they are loaded; save "
                 "model.state_dict()")
    except (KeyError, EOFError, RuntimeError, ValueError, IndexError):
        sys.exit(f"{path}: is no pickle of PyTorch, or a damaged one")


def name_in_torchvision(name):
    name = name.removeprefix("module.").removeprefix("_orig_mod.")
    for pattern, replacement in OF_TRANSFORMERS:
        name = re.sub(pattern, replacement, name)
    name = re.sub(r"^linear\.", "fc.", name)
    return re.sub(r"^(layer\d\.\d+)\.shortcut\.", r"\1.downsample.", name)


def state_dict_of(checkpoint):
    """The tensors, by torchvision's names."""
    if not isinstance(checkpoint, dict):
        sys.exit(f"no ResNet: the file holds a {type(checkpoint).__name__}, not tensors with names")
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


def shapes_of(config, bottleneck):
    """The shapes of all tensors of the ResNet that `config` describes, num_batches_tracked left out."""
    depth, small = config["depth"], config["depth"] not in DEPTHS.values()
    shapes = {}

    def add(conv, norm, outputs, inputs, size):
        shapes[conv + ".weight"] = (outputs, inputs, size, size)
        for part in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{norm}.{part}"] = (outputs,)

    inputs = SMALL_CHANNELS if small else 64
    blocks = ((depth - 2) // 6,) * 3 if small else next(form[1] for form, layers in DEPTHS.items() if layers == depth)
    add("conv1", "bn1", inputs, config["channels"], 3 if small else 7)
    first = inputs
    for stage, count in enumerate(blocks):
        width = first << stage
        outputs = width * (4 if bottleneck else 1)
        for block in range(count):
            at = f"layer{stage + 1}.{block}."
            convs = ((width, inputs, 1), (width, width, 3), (outputs, width, 1)) if bottleneck else (
                (width, inputs, 3), (outputs, width, 3))
            for number, conv in enumerate(convs, 1):
                add(f"{at}conv{number}", f"{at}bn{number}", *conv)
            if inputs != outputs and config.get("shortcut", "B") == "B":
                add(at + "downsample.0", at + "downsample.1", outputs, inputs, 1)
            inputs = outputs
    shapes["fc.weight"], shapes["fc.bias"] = (config["classes"], inputs), (config["classes"],)
    return shapes


def check_shapes(state, config):
    """Refuses tensors that are not those of a ResNet of this depth: wide and narrow ones, groups, other parts."""
    expected = shapes_of(config, bottleneck="layer1.0.conv3.weight" in state)
    title = f"ResNet-{config['depth']}"
    for name, shape in expected.items():
        if name not in state:
            sys.exit(f"no {title}: it has no tensor {name}")
        if tuple(state[name].shape) != shape:
            sys.exit(f"no {title}: tensor {name} is {' × '.join(map(str, state[name].shape))}, not "
                     f"{' × '.join(map(str, shape))}; ResNets of other widths, and of convolutions in groups "
                     "(ResNeXt), cannot be converted")
    for name in state:
        if name not in expected and not name.endswith(".num_batches_tracked"):
            sys.exit(f"no {title}: tensor {name} belongs to a variant that cannot be converted")


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


def labels_of(path, config, made):
    """What config.json next to the weights says of classes; `made`: members of the one to be written."""
    members = {}
    if config.get("problem_type"):
        members["problem_type"] = config["problem_type"]
    if names := classifier_folder.label_names_of(path, config, made["classes"]):
        members |= classifier_folder.label_members(names)
    return members


def convert(state, weights, given, image_size=None, shortcut=None):
    """config.json's members, and preprocessor_config.json's or None, for tensors of the file `weights`.

    `given`: config.json next to it, or None."""
    path = weights.parent / "config.json"
    if given is None:
        made = config_of(state, image_size, shortcut)
        check_shapes(state, made)
        print(f"{weights}: no config.json is next to it: taken for a ResNet of torchvision's form, with ReLU")
        return made, None
    of_timm = "architecture" in given
    side = image_size or (classifier_folder.timm_side(path, given) if of_timm
                          else classifier_folder.transformers_side(weights.parent))
    made = config_of(state, side, shortcut)
    check_shapes(state, made)
    if of_timm and classifier_folder.architecture_of(given) != f"resnet{made['depth']}":
        sys.exit(f"{path}: architecture: is {given['architecture']!r}, and the tensors are those of "
                 f"{made['depth']} layers")
    made |= labels_of(path, given, made)
    if not of_timm or (weights.parent / classifier_folder.PREPARATION).exists():
        return made, None
    return made, classifier_folder.timm_preparation(path, given, made["image_size"], made["channels"])


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
    weights = classifier_folder.weights_in(arguments.weights, ("model.safetensors", "pytorch_model.bin"))
    classifier_folder.check_target(weights, arguments.folder)
    path, given = classifier_folder.config_beside(weights)
    if given is not None:
        check_config(path, given)  # before the weights are read, which may take long
    state = state_dict_of(read_weights(weights))
    config, preparation = convert(state, weights, given, arguments.image_size, arguments.shortcut)
    import safetensors.torch

    arguments.folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in state.items()},
                                arguments.folder / "model.safetensors", metadata={"format": "pt"})
    classifier_folder.write_json(arguments.folder / "config.json", config)
    classifier_folder.write_preparation(weights, arguments.folder, preparation)
    print(f"{arguments.folder}: ResNet-{config['depth']} of {config['classes']} "
          f"class{'' if config['classes'] == 1 else 'es'}" +
          (f", shortcut {config['shortcut']}" if "shortcut" in config else ""))


if __name__ == "__main__":
    main()
