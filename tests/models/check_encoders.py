#!/usr/bin/env python3
"""Compares checkpoints and forward passes of BERT and ViT with Hugging Face's transformers and with
timm (PyTorch on the CPU).

    bazel build //tests/models:forward
    python3 tests/models/check_encoders.py bazel-bin/tests/models/forward

For small random models of every task it
  1. runs the checkpoint in both programs: logits and loss must agree;
  2. reads and writes it with Plimsoll, and loads the copy into transformers by its strict rules:
     no tensor missing, none too many, and equal outputs.
A ViT is also run on images of another size (interpolate_pos_encoding), and by timm, after
tools/timm_vit.py made a folder of timm's weights.
With --write-fixtures DIR it writes the small models, each with what is expected of it, as the
folders that encoder_files_test.cc reads. Needs: pip install torch "transformers<5" timm safetensors.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import timm
import torch
import transformers
from safetensors.torch import save_file

TOLERANCE = 5e-6  # of the largest logit; float32 sums in another order
BATCH, SEQUENCE, CLASSES = 3, 10, 5
BERT = dict(vocab_size=19, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=20, max_position_embeddings=16, num_labels=CLASSES)
VIT = dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
           image_size=12, patch_size=4, num_channels=3, num_labels=CLASSES)
LARGER, SMALLER = 20, 8  # image sizes


def small_models():
    """Name -> class and config."""
    bert = transformers.BertConfig(**BERT)
    vit = transformers.ViTConfig(**VIT)
    return {
        "bert-masked-lm": (transformers.BertForMaskedLM, bert),
        "bert-pretraining": (transformers.BertForPreTraining, bert),
        "bert-classification": (transformers.BertForSequenceClassification, bert),
        "bert-gelu-new": (transformers.BertForMaskedLM, transformers.BertConfig(
            **BERT, hidden_act="gelu_new", layer_norm_eps=1e-3)),
        "bert-base": (transformers.BertModel, bert),
        "vit": (transformers.ViTForImageClassification, vit),
        "vit-base": (transformers.ViTModel, vit),
        "bert-multi-label": (transformers.BertForSequenceClassification, transformers.BertConfig(
            **BERT, problem_type="multi_label_classification")),
        "bert-regression": (transformers.BertForSequenceClassification, transformers.BertConfig(
            **(BERT | dict(num_labels=1)), classifier_dropout=0.25)),
        "vit-multi-label": (transformers.ViTForImageClassification, transformers.ViTConfig(
            **VIT, problem_type="multi_label_classification")),
    }


def make_small_model(make, config, seed):
    """Weights large enough that every part of the model matters; biases and norms not trivial."""
    torch.manual_seed(seed)
    model = make(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.4)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def labels_for(config):
    """A classifier's labels, by the name of Plimsoll's input."""
    if config.num_labels == 1:
        return "label_values", torch.tensor([2.5, -0.75, 0.125])
    if config.problem_type == "multi_label_classification":
        return "label_values", torch.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 1, 1, 1, 0.25]])
    return "labels", torch.tensor([4, 0, 2])


def text_batch(architecture, config):
    """The batch as Plimsoll's JSON, and transformers' arguments."""
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, BERT["vocab_size"], (BATCH, SEQUENCE), generator=draw)
    types = torch.randint(0, 2, (BATCH, SEQUENCE), generator=draw)
    lengths = torch.tensor([SEQUENCE, 7, 1])
    mask = (torch.arange(SEQUENCE)[None] < lengths[:, None]).long()
    targets = torch.where((torch.arange(SEQUENCE)[None] % 3 == 0) & (mask == 1), tokens.roll(1), -100)
    follows = torch.tensor([0, 1, 1])
    data = dict(tokens=tokens, token_types=types, lengths=lengths)
    arguments = dict(input_ids=tokens, token_type_ids=types, attention_mask=mask)
    if architecture == "BertForSequenceClassification":
        name, labels = labels_for(config)
        return data, data | {name: labels}, arguments | dict(labels=labels)
    if architecture == "BertForPreTraining":
        return (data, data | dict(targets=targets, next_sentence=follows),
                arguments | dict(labels=targets, next_sentence_label=follows))
    return data, data | dict(targets=targets), arguments | dict(labels=targets)


def image_batch(size, config):
    images = torch.randn(BATCH, size, size, 3, generator=torch.Generator().manual_seed(size))
    name, labels = labels_for(config)
    data = dict(images=images)
    return (data, data | {name: labels},
            dict(pixel_values=images.permute(0, 3, 1, 2), labels=labels))


def flat(tensors):
    return {name: [round(x, 6) for x in tensor.flatten().tolist()]
            for name, tensor in tensors.items()}


def run_transformers(model, batch, settings, **options):
    """What Plimsoll is given, and what transformers makes of it."""
    data, targets, arguments = batch
    for name, tensor in data.items():
        if tensor.is_floating_point():
            tensor.copy_((tensor * 1e6).round() / 1e6)  # as it is written
    with torch.no_grad():
        outputs = model(**arguments, **options)
    logits = outputs.prediction_logits if "prediction_logits" in outputs else outputs.logits
    if logits.dim() == 3:
        logits = logits.transpose(0, 1)  # [T,B,V]
    return {"batch": BATCH, "sequence": SEQUENCE if "tokens" in data else 1, "settings": settings,
            "data": flat(data), "targets": flat(targets),
            "logits": logits.flatten().tolist(), "loss": outputs.loss.item()}


def load(folder):
    """Loads a folder by strict rules into the class that it names."""
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    model, info = getattr(transformers, name).from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True)
    problems = {key: found for key, found in info.items() if found}
    if problems:
        raise SystemExit(f"{folder}: {problems}")
    return model.eval()


def expectations(folder):
    """Of a model with a head: its results, by case."""
    model = load(folder)
    architecture = type(model).__name__
    if architecture.startswith("ViT"):
        cases = {"": run_transformers(model, image_batch(VIT["image_size"], model.config), {})}
        if model.config.problem_type == "multi_label_classification":
            return cases
        for size in (LARGER, SMALLER):
            case = run_transformers(model, image_batch(size, model.config), {"image_size": size},
                                    interpolate_pos_encoding=True)
            embeddings = model.vit.embeddings
            width = VIT["hidden_size"]
            patches = torch.zeros(1, 1 + (size // VIT["patch_size"]) ** 2, width)
            with torch.no_grad():
                case["positions"] = embeddings.interpolate_pos_encoding(
                    patches, size, size).flatten().tolist()
            cases[f"images of {size}"] = case
        return cases
    return {"": run_transformers(model, text_batch(architecture, model.config), {"padded": True})}


def counted(case):
    """Which of a case's logits belong to tokens that are no padding."""
    if "tokens" not in case["data"] or len(case["logits"]) in (BATCH, BATCH * CLASSES):
        return torch.ones(len(case["logits"]), dtype=torch.bool)
    lengths = torch.tensor(case["data"]["lengths"])
    mask = torch.arange(SEQUENCE)[:, None] < lengths[None]  # [T,B]
    return mask[:, :, None].expand(-1, -1, BERT["vocab_size"]).flatten()


def compare(name, program, folder, case):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({key: case[key] for key in ("batch", "sequence", "settings", "data", "targets")},
                  file)
        file.flush()
        ours = json.loads(subprocess.run([program, "--inputs", folder, file.name], check=True,
                                         capture_output=True, text=True).stdout)
    logits = torch.tensor(case["logits"])
    scale = logits.abs().max().item()
    difference = ((torch.tensor(ours["logits"]) - logits).abs() * counted(case)).max().item() / scale
    loss = abs(ours["loss"] / case["loss"] - 1)
    good = difference < TOLERANCE and loss < TOLERANCE
    print(f"{'ok    ' if good else 'FAILED'} {name}: logits differ by {difference:.1e} of the "
          f"largest ({scale:.3g}), loss by {loss:.1e}")
    return good


def check_copy(name, program, folder):
    with tempfile.TemporaryDirectory() as copy:
        subprocess.run([program, "--copy", folder, copy], check=True)
        before, after = load(folder).state_dict(), load(pathlib.Path(copy)).state_dict()
    good = before.keys() == after.keys() and all(
        torch.equal(tensor, after[key]) for key, tensor in before.items())
    print(f"{'ok    ' if good else 'FAILED'} {name}: the written copy, loaded strictly, has "
          f"{'the same' if good else 'OTHER'} tensors")
    return good


def check_timm(program):
    """A ViT of timm, in the form of transformers."""
    torch.manual_seed(9)
    model = timm.models.vision_transformer.VisionTransformer(
        img_size=12, patch_size=4, embed_dim=12, depth=2, num_heads=3, mlp_ratio=2,
        num_classes=CLASSES).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    data, targets, arguments = image_batch(12, transformers.ViTConfig(**VIT))
    for tensor in data.values():
        tensor.copy_((tensor * 1e6).round() / 1e6)
    with torch.no_grad():
        logits = model(arguments["pixel_values"])
        loss = torch.nn.functional.cross_entropy(logits, arguments["labels"])
    case = {"batch": BATCH, "sequence": 1, "settings": {}, "data": flat(data),
            "targets": flat(targets), "logits": logits.flatten().tolist(), "loss": loss.item()}
    convert = pathlib.Path(__file__).parents[2] / "tools/timm_vit.py"
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        save_file(model.state_dict(), made / "timm.safetensors")
        subprocess.run([sys.executable, convert, made / "timm.safetensors", made / "vit",
                        "--heads", "3"], check=True)
        good = compare("timm's ViT", program, made / "vit", case)
        subprocess.run([sys.executable, convert, "--back", made / "vit", made / "back.safetensors"],
                       check=True)
        subprocess.run([program, "--copy", made / "vit", made / "copy"], check=True)
        subprocess.run([sys.executable, convert, "--back", made / "copy",
                        made / "back.safetensors"], check=True)
        from safetensors.torch import load_file
        model.load_state_dict(load_file(made / "back.safetensors"), strict=True)
        with torch.no_grad():
            same = torch.equal(model(arguments["pixel_values"]), logits)
    print(f"{'ok    ' if same else 'FAILED'} timm's ViT: what was converted back, loaded strictly, "
          f"gives {'the same' if same else 'OTHER'} logits")
    return good and same


def write_small_models(target, with_expectations):
    folders = {}
    for seed, (name, (make, config)) in enumerate(small_models().items()):
        folder = target / name
        make_small_model(make, config, seed).save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        folders[name] = folder
        if with_expectations and not name.endswith("-base"):
            (folder / "expected.json").write_text(json.dumps(shortened(expectations(folder))) + "\n")
    return folders


def shortened(cases):
    for case in cases.values():
        for key in ("logits", "positions"):
            if key in case:
                case[key] = [round(x, 7) for x in case[key]]
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", help="the built //tests/models:forward")
    parser.add_argument("--write-fixtures", type=pathlib.Path, metavar="DIR")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    if arguments.write_fixtures:
        write_small_models(arguments.write_fixtures, with_expectations=True)
    if not arguments.program:
        return 0
    results = []
    with tempfile.TemporaryDirectory() as small:
        for name, folder in write_small_models(pathlib.Path(small), False).items():
            if name.endswith("-base"):
                continue
            for case, expected in expectations(folder).items():
                results.append(compare(f"{name} {case}".strip(), arguments.program, folder,
                                       expected))
            results.append(check_copy(name, arguments.program, folder))
    results.append(check_timm(arguments.program))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
