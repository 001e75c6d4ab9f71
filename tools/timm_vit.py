#!/usr/bin/env python3
"""Turns a vision transformer of timm into a folder that Plimsoll reads (transformers' form), and
back.

    tools/timm_vit.py FOLDER OUT                a folder of timm: model.safetensors, config.json
    tools/timm_vit.py timm.safetensors OUT [--heads N]
    tools/timm_vit.py --back FOLDER timm.safetensors

The file holds the state_dict of timm's VisionTransformer with a class token, as its pretrained
weights are stored and as safetensors.torch.save_file(model.state_dict(), …) writes it. Both split
q, k and v another way and name tensors otherwise; the numbers stay as they are. Sizes follow from
the tensors, but for the number of heads, which follows from the width as in timm's ViTs unless
--heads or config.json says it. What a config.json next to the file says is done or refused by name:
names of classes are kept, and pretrained_cfg becomes a preprocessor_config.json. Without a head
(num_classes=0) the folder is one of ViTModel, which a run gives a head.
Needs: pip install safetensors numpy.
"""

import argparse
import pathlib
import re
import sys

import classifier_folder

NAMES = {"cls_token": "vit.embeddings.cls_token",
         "pos_embed": "vit.embeddings.position_embeddings",
         "patch_embed.proj": "vit.embeddings.patch_embeddings.projection",
         "norm": "vit.layernorm",
         "head": "classifier"}
BLOCK_NAMES = {"norm1": "layernorm_before", "attn.proj": "attention.output.dense",
               "norm2": "layernorm_after", "mlp.fc1": "intermediate.dense",
               "mlp.fc2": "output.dense"}
PARTS = ("query", "key", "value")
BLOCK, LAYER = "blocks.{}.", "vit.encoder.layer.{}."
BASE = "vit."  # before the names of all but the classifier; folders of ViTModel leave it out

# The ViTs of timm whose layers are those of transformers' ViT.
ARCHITECTURE = (r"(vit_(tiny|small|base|large|huge|giant|gigantic)|deit_(tiny|small|base))_patch\d+_\d+"
                r"(_in21k|_sam|_dino)?")
# Their heads where it isn't the width / 64.
HEADS = {1280: 16, 1408: 16, 1664: 16}
# What timm's function may be called with: the tensors or the names of layers say it (None), or these values.
ARGUMENTS = {"num_classes": None, "img_size": None, "in_chans": None, "patch_size": None, "embed_dim": None,
             "depth": None, "mlp_ratio": None, "num_heads": None, "weight_init": None, "fix_init": None,
             "global_pool": ("token",), "class_token": (True,), "reg_tokens": (0, None), "no_embed_class": (False,),
             "act_layer": ("gelu", None), "norm_layer": (None,), "qkv_bias": (True,), "qk_norm": (False,),
             "pre_norm": (False,), "final_norm": (True,), "fc_norm": (None, False), "init_values": (None,),
             "pos_embed": ("learn",), "dynamic_img_size": (False, True), "dynamic_img_pad": (False,),
             "proj_bias": (True,), "pool_include_prefix": (False,), "pretrained": (False, True),
             "drop_rate": (0, None), "pos_drop_rate": (0, None), "patch_drop_rate": (0, None),
             "proj_drop_rate": (0, None), "attn_drop_rate": (0, None), "drop_path_rate": (0, None)}


def check_config(path, config):
    """Refuses what timm's config.json says that transformers' ViT doesn't do."""
    if "architecture" not in config:
        sys.exit(f"{path}: architecture: is missing, so it is none of timm's")
    name = classifier_folder.architecture_of(config)
    if not re.fullmatch(ARCHITECTURE, name):
        sys.exit(f"{path}: architecture: is {name!r}, a model of timm, of which only vit_SIZE_patchN_N and "
                 "deit_SIZE_patchN_N (tiny to gigantic) can be converted")
    classifier_folder.check_arguments(path, config, ARGUMENTS)


def split(name):
    """A tensor's name without .weight or .bias, and that ending."""
    stem, dot, kind = name.rpartition(".")
    return (stem, dot + kind) if kind in ("weight", "bias") else (name, "")


def to_transformers(timm):
    tensors = {}
    for name, tensor in timm.items():
        stem, kind = split(name)
        block = re.fullmatch(r"blocks\.(\d+)\.(.+)", stem)
        if stem in NAMES:
            tensors[NAMES[stem] + kind] = tensor
        elif block and block[2] == "attn.qkv":
            rows = len(tensor) // 3
            for i, part in enumerate(PARTS):
                name = LAYER.format(block[1]) + "attention.attention." + part + kind
                tensors[name] = tensor[i * rows:(i + 1) * rows]
        elif block and block[2] in BLOCK_NAMES:
            tensors[LAYER.format(block[1]) + BLOCK_NAMES[block[2]] + kind] = tensor
        else:
            sys.exit(f"tensor \"{name}\" belongs to a variant of the ViT that Plimsoll does not have")
    return tensors


def to_timm(tensors):
    import numpy

    if not any(name.startswith(BASE) for name in tensors):  # ViTModel
        tensors = {BASE + name: tensor for name, tensor in tensors.items()}
    names = {there: here for here, there in NAMES.items()}
    block_names = {there: here for here, there in BLOCK_NAMES.items()}
    timm, projections = {}, {}
    for name, tensor in tensors.items():
        stem, kind = split(name)
        layer = re.fullmatch(r"vit\.encoder\.layer\.(\d+)\.(.+)", stem)
        part = layer and re.fullmatch(r"attention\.attention\.(query|key|value)", layer[2])
        if stem in names:
            timm[names[stem] + kind] = tensor
        elif part:
            whole = projections.setdefault(BLOCK.format(layer[1]) + "attn.qkv" + kind, {})
            whole[part[1]] = tensor
        elif layer and layer[2] in block_names:
            timm[BLOCK.format(layer[1]) + block_names[layer[2]] + kind] = tensor
        else:
            sys.exit(f"tensor \"{name}\" is none of ViTForImageClassification")
    for name, parts in projections.items():
        timm[name] = numpy.concatenate([parts[part] for part in PARTS])
    return timm


def check_tensors(tensors):
    """Refuses a ViT without some of the tensors, and one whose positions aren't a class token's and a square's."""
    layers = {name.split(".")[3] for name in tensors if name.startswith("vit.encoder.layer.")}
    ends = (".weight", ".bias")
    names = [there + end for here, there in NAMES.items() if here not in ("cls_token", "pos_embed", "head")
             for end in ends] + [NAMES["cls_token"], NAMES["pos_embed"]]
    parts = [f"attention.attention.{part}" for part in PARTS] + list(BLOCK_NAMES.values())
    for layer in sorted(layers, key=int) or ["0"]:
        names += [LAYER.format(layer) + part + end for part in parts for end in ends]
    for name in names:
        if name not in tensors:
            sys.exit(f"no ViT of transformers: nothing becomes tensor {name}; it belongs to a variant that Plimsoll "
                     "does not have")
    patches = tensors[NAMES["pos_embed"]].shape[1] - 1
    if round(patches ** 0.5) ** 2 != patches:
        sys.exit(f"no ViT of transformers: pos_embed has {patches + 1} positions, which are not a class token's and "
                 "those of a square of patches")


def config_of(tensors, heads, names=None):
    """config.json's members; `names`: of the classes."""
    patches = tensors["vit.embeddings.patch_embeddings.projection.weight"]
    width, channels, patch, _ = patches.shape
    side = round((tensors["vit.embeddings.position_embeddings"].shape[1] - 1) ** 0.5)
    layers = 1 + max(int(name.split(".")[3]) for name in tensors if ".layer." in name)
    heads = heads or HEADS.get(width) or max(width // 64, 1)
    if width % heads:
        sys.exit(f"the width {width} is no multiple of {heads} heads; give their number (--heads)")
    config = {"architectures": ["ViTForImageClassification"], "model_type": "vit",
              "hidden_size": width, "num_hidden_layers": layers,
              "num_attention_heads": heads,
              "intermediate_size":
                  tensors["vit.encoder.layer.0.intermediate.dense.weight"].shape[0],
              "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
              "layer_norm_eps": 1e-6, "image_size": side * patch, "patch_size": patch,
              "num_channels": channels, "qkv_bias": True}
    if "classifier.weight" not in tensors:
        return config | {"architectures": ["ViTModel"]}
    classes = tensors["classifier.weight"].shape[0]
    return config | classifier_folder.label_members(names or [f"LABEL_{i}" for i in range(classes)])


def convert(tensors, source, given, heads=None):
    """config.json's members, and preprocessor_config.json's or None, for transformers' `tensors` of `source`.

    `given`: config.json next to it, or None."""
    check_tensors(tensors)
    path = source.parent / "config.json"
    if given is None:
        made = config_of(tensors, heads)
        print(f"{source}: no config.json is next to it: taken for a ViT of timm with {made['num_attention_heads']} "
              "heads (--heads), GELU, and a head that reads the class token")
        return made, None
    heads = heads or (given.get("model_args") or {}).get("num_heads")
    names = None
    if "classifier.weight" in tensors:
        names = classifier_folder.label_names_of(path, given, tensors["classifier.weight"].shape[0])
    made = config_of(tensors, heads, names)
    if (source.parent / classifier_folder.PREPARATION).exists():
        return made, None
    return made, classifier_folder.timm_preparation(path, given, made["image_size"], made["num_channels"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--heads", type=int)
    parser.add_argument("--back", action="store_true")
    arguments = parser.parse_args()
    source = classifier_folder.weights_in(arguments.source, ("model.safetensors",))
    if source.suffix != ".safetensors":
        classifier_folder.refuse_pickle(source)
    path, given = (None, None) if arguments.back else classifier_folder.config_beside(source)
    if given is not None:
        check_config(path, given)
    from safetensors.numpy import load_file, save_file

    if arguments.back:
        save_file(to_timm(classifier_folder.load_safetensors(load_file, source)), arguments.target)
        return
    classifier_folder.check_target(source, arguments.target)
    tensors = to_transformers(classifier_folder.load_safetensors(load_file, source))
    config, preparation = convert(tensors, source, given, arguments.heads)
    if "classifier.weight" not in tensors:
        tensors = {name.removeprefix(BASE): tensor for name, tensor in tensors.items()}
        print(f"{arguments.target}: has no classifier (ViTModel); give model.classes to the run that starts from it")
    arguments.target.mkdir(parents=True, exist_ok=True)
    save_file(tensors, arguments.target / "model.safetensors", {"format": "pt"})
    classifier_folder.write_json(arguments.target / "config.json", config)
    classifier_folder.write_preparation(source, arguments.target, preparation)


if __name__ == "__main__":
    main()
