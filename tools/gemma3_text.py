#!/usr/bin/env python3
"""Writes a folder of the text part of a Gemma 3 that sees images, as one of transformers' gemma3_text.

    tools/gemma3_text.py FOLDER OUT

FOLDER is one of Gemma3ForConditionalGeneration: the models from 4B on. The tensors of the language model get the names
that they have in Gemma3ForCausalLM, and their bytes stay as they are; those of vision_tower and multi_modal_projector
are left out, and so is what config.json says of images. The tokenizer's files go along.
"""

import argparse
import json
import pathlib
import shutil
import struct
import sys

RENAMED = {"language_model.model.": "model.", "language_model.lm_head.": "lm_head.",
           "model.language_model.": "model.", "lm_head.": "lm_head."}
OF_IMAGES = ("vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector.")

# Keys of config.json next to text_config. The text part takes these, where it does not say them itself;
TAKEN = ("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", "torch_dtype", "dtype")
# these change none of its numbers.
LEFT_OUT = ("architectures", "model_type", "text_config", "vision_config", "mm_tokens_per_image", "boi_token_index",
            "eoi_token_index", "image_token_index", "boi_token_id", "eoi_token_id", "image_token_id",
            "initializer_range", "transformers_version", "use_cache")

INDEX = "model.safetensors.index.json"
BESIDE = ("tokenizer*", "special_tokens_map.json", "added_tokens.json", "generation_config.json", "chat_template*")
PIECE = 1 << 24


def text_config(path, config):
    """The members of config.json of the text part."""
    if config.get("model_type") != "gemma3" or not isinstance(config.get("text_config"), dict):
        sys.exit(f"{path}: model_type: is {config.get('model_type')!r}, but only gemma3 with a text_config can be "
                 "converted")
    for key, value in config.items():
        if key not in TAKEN and key not in LEFT_OUT and not key.startswith("_") and value:
            sys.exit(f"{path}: {key}: is {json.dumps(value)}, a key that this script does not know; remove it if it "
                     "changes no number of the text part")
    text = config["text_config"]
    if text.get("model_type", "gemma3_text") != "gemma3_text":
        sys.exit(f"{path}: text_config.model_type: is {text['model_type']!r}, but only gemma3_text can be converted")
    taken = {key: config[key] for key in TAKEN if key in config and text.get(key) is None}
    return text | taken | {"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"]}


def name_in_text(file, name):
    """The tensor's name in Gemma3ForCausalLM, or None where it has to do with images."""
    for before, after in RENAMED.items():
        if name.startswith(before):
            return after + name.removeprefix(before)
    if name.startswith(OF_IMAGES):
        return None
    sys.exit(f"{file}: tensor \"{name}\" is none of Gemma3ForConditionalGeneration")


def convert_file(source, target):
    """Copies the text part's tensors; returns their names and the number of their bytes. Writes no empty file."""
    with source.open("rb") as file:
        start = file.read(8)
        size = struct.unpack("<Q", start)[0] if len(start) == 8 else source.stat().st_size
        if size > source.stat().st_size - 8:
            sys.exit(f"{source}: is no file of safetensors, or not complete")
        given = json.loads(file.read(size))
        metadata = given.pop("__metadata__", {"format": "pt"})
        header, ranges, end = {}, [], 0
        for name, tensor in sorted(given.items(), key=lambda item: item[1]["data_offsets"]):
            text = name_in_text(source, name)
            if text is None:
                continue
            if text in header:
                sys.exit(f"{source}: has tensor \"{text}\" under two names")
            begin, stop = tensor["data_offsets"]
            header[text] = tensor | {"data_offsets": [end, end + stop - begin]}
            ranges.append((8 + size + begin, stop - begin))
            end += stop - begin
        if not header:
            return [], 0
        text = json.dumps({"__metadata__": metadata} | header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with target.open("wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for at, left in ranges:
                file.seek(at)
                while left:
                    piece = file.read(min(left, PIECE))
                    if not piece:
                        sys.exit(f"{source}: is shorter than its header says")
                    out.write(piece)
                    left -= len(piece)
    return list(header), end


def convert(source, target):
    path = source / "config.json"
    if not path.exists():
        sys.exit(f"{source}: has no config.json; give a folder of Gemma3ForConditionalGeneration")
    config = text_config(path, json.loads(path.read_text()))
    index = source / INDEX
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    else:
        files = ["model.safetensors"]
    for file in files:
        if not (source / file).exists():
            sys.exit(f"{source}: has no {file}")
    if target.exists() and any(target.iterdir()):
        sys.exit(f"{target}: is not empty; give a new folder")
    target.mkdir(parents=True, exist_ok=True)
    places, total = {}, 0
    for file in files:
        names, size = convert_file(source / file, target / file)
        places |= {name: file for name in names}
        total += size
    if not places:
        sys.exit(f"{source}: has no tensor of a language model")
    if index.exists():
        (target / INDEX).write_text(json.dumps(
            {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}, indent=2) + "\n")
    for pattern in BESIDE:
        for file in source.glob(pattern):
            shutil.copy(file, target / file.name)
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    print(f"{target}: {len(places)} tensors of the text part")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    arguments = parser.parse_args()
    convert(arguments.source, arguments.target)


if __name__ == "__main__":
    main()
