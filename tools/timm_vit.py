#!/usr/bin/env python3
"""Turns a vision transformer of timm into a folder that Plimsoll reads (transformers' form), and
back.

    tools/timm_vit.py timm.safetensors FOLDER [--heads N]
    tools/timm_vit.py --back FOLDER timm.safetensors

The file holds the state_dict of timm's VisionTransformer with a class token, as its pretrained
weights are stored and as safetensors.torch.save_file(model.state_dict(), …) writes it. Both split
q, k and v another way and name tensors otherwise; the numbers stay as they are. Sizes follow from
the tensors, but for the number of heads: it is the width / 64 unless --heads says otherwise.
Needs: pip install safetensors numpy.
"""

import argparse
import json
import pathlib
import re
import sys

import numpy
from safetensors.numpy import load_file, save_file

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
            for part, rows in zip(PARTS, numpy.split(tensor, 3)):
                name = LAYER.format(block[1]) + "attention.attention." + part + kind
                tensors[name] = numpy.ascontiguousarray(rows)
        elif block and block[2] in BLOCK_NAMES:
            tensors[LAYER.format(block[1]) + BLOCK_NAMES[block[2]] + kind] = tensor
        else:
            sys.exit(f"tensor \"{name}\" belongs to a variant of the ViT that Plimsoll does not have")
    return tensors


def to_timm(tensors):
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


def config_of(tensors, heads):
    patches = tensors["vit.embeddings.patch_embeddings.projection.weight"]
    width, channels, patch, _ = patches.shape
    side = round((tensors["vit.embeddings.position_embeddings"].shape[1] - 1) ** 0.5)
    layers = 1 + max(int(name.split(".")[3]) for name in tensors if ".layer." in name)
    classes = tensors["classifier.weight"].shape[0]
    return {"architectures": ["ViTForImageClassification"], "model_type": "vit",
            "hidden_size": width, "num_hidden_layers": layers,
            "num_attention_heads": heads or width // 64,
            "intermediate_size":
                tensors["vit.encoder.layer.0.intermediate.dense.weight"].shape[0],
            "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
            "layer_norm_eps": 1e-6, "image_size": side * patch, "patch_size": patch,
            "num_channels": channels, "qkv_bias": True,
            "id2label": {str(i): f"LABEL_{i}" for i in range(classes)},
            "label2id": {f"LABEL_{i}": i for i in range(classes)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--heads", type=int)
    parser.add_argument("--back", action="store_true")
    arguments = parser.parse_args()
    if arguments.back:
        save_file(to_timm(load_file(arguments.source / "model.safetensors")), arguments.target)
        return
    tensors = to_transformers(load_file(arguments.source))
    config = config_of(tensors, arguments.heads)
    arguments.target.mkdir(parents=True, exist_ok=True)
    save_file(tensors, arguments.target / "model.safetensors", {"format": "pt"})
    (arguments.target / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
