"""What the scripts that convert classifiers of images share: config.json next to the weights, as timm
and transformers write it, names of classes, and how pictures are prepared."""

import json
import math
import pathlib
import shutil
import sys

PREPARATION = "preprocessor_config.json"
# Pillow's numbers, which `resample` has.
FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
# What timm takes where its config.json says nothing.
USUAL_CROP_PART = 0.875
USUAL_MEAN, USUAL_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def weights_in(path, names):
    """`path`, or the first of `names` that the folder `path` has."""
    if not path.is_dir():
        if not path.exists():
            sys.exit(f"{path}: there is no such file or folder")
        return path
    for name in names:
        if (path / name).exists():
            return path / name
    if (path / "pytorch_model.bin").exists():
        refuse_pickle(path / "pytorch_model.bin")
    sys.exit(f"{path}: has no {' and no '.join(names)}; give the file with the weights")


def refuse_pickle(path):
    sys.exit(f"{path}: is no safetensors; where it is a pickle, write its tensors as safetensors.torch.save_file("
             "torch.load(FILE, weights_only=True), \"model.safetensors\")")


def load_safetensors(load_file, path):
    """What `load_file` of the package safetensors makes of `path`."""
    import safetensors

    try:
        return load_file(path)
    except safetensors.SafetensorError as error:
        sys.exit(f"{path}: is no safetensors, or a damaged one: {error}")


def config_beside(weights):
    """The path of config.json in the folder of the file `weights`, and its members; None: there is no such file."""
    path = weights.parent / "config.json"
    if not path.exists():
        return path, None
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        sys.exit(f"{path}: is no JSON: {error}")
    if not isinstance(config, dict):
        sys.exit(f"{path}: is no JSON object")
    return path, config


def architecture_of(config):
    """timm's name of the model, without the tag of its weights."""
    return str(config["architecture"]).partition(".")[0]


def check_arguments(path, config, neutral):
    """Refuses members of model_args, with which timm's function is called, that `neutral` does not have.

    `neutral`: for each argument the values that are let through, or None where the tensors say it.
    """
    given = dict(config.get("model_args") or {})
    if config.get("global_pool"):
        given.setdefault("global_pool", config["global_pool"])
    for name, value in given.items():
        if name not in neutral:
            sys.exit(f"{path}: model_args: {name}: is {value!r}, which is not known; remove it if the model's numbers "
                     "don't depend on it")
        allowed = neutral[name]
        if allowed is not None and value not in allowed:
            sys.exit(f"{path}: model_args: {name}: is {value!r}; only models with {allowed[0]!r} can be converted")


def pretrained_of(config):
    """Of timm's config.json, how the weights were made; old ones have all in one object."""
    return config.get("pretrained_cfg") or config


def label_names_of(path, config, classes):
    """The names of classes by number in config.json of timm or transformers; None: it has none."""
    names = config.get("id2label")
    key = "id2label"
    if names is None and "architecture" in config:
        for owner in (config, pretrained_of(config)):
            for key in ("label_names", "labels"):
                names = names or owner.get(key)
            if names:
                break
    if not names:
        return None
    if not isinstance(names, dict):
        names = dict(enumerate(names))
    try:
        names = {int(number): str(name) for number, name in names.items()}
    except ValueError:
        sys.exit(f"{path}: {key}: has a class that is no number")
    if max(names) >= classes or min(names) < 0:
        sys.exit(f"{path}: {key}: names class {max(names) if min(names) >= 0 else min(names)}, and the weights have "
                 f"{classes} classes, from 0 on")
    if key == "id2label" and len(names) != classes:  # timm's names may have gaps, transformers' have none
        sys.exit(f"{path}: {key}: names {len(names)} classes, and the weights have {classes}")
    return [names.get(number, f"LABEL_{number}") for number in range(classes)]


def label_members(names):
    """Members of config.json, as transformers has them."""
    return {"id2label": {str(number): name for number, name in enumerate(names)},
            "label2id": {name: number for number, name in enumerate(names)}}


def square(path, key, sides):
    """The one side of a picture that is as wide as high."""
    if len(set(sides)) != 1:
        sys.exit(f"{path}: {key}: is {' × '.join(map(str, sides))}; pictures are squares here")
    return int(sides[0])


def timm_side(path, config):
    """The side of pictures that timm's config.json says; None: it says none."""
    size = pretrained_of(config).get("input_size")
    return square(path, "input_size", size[-2:]) if size else None


def transformers_side(folder):
    """The side that preprocessor_config.json in `folder` gives to pictures; None: it says none."""
    path = folder / PREPARATION
    if not path.exists():
        return None
    config = json.loads(path.read_text(encoding="utf-8"))
    crops = config.get("crop_size") and config.get("do_center_crop", True)
    key = "crop_size" if crops else "size"
    size = config.get(key)
    if isinstance(size, dict):
        if "shortest_edge" in size:
            return int(size["shortest_edge"])
        return square(path, key, [size["height"], size["width"]]) if "height" in size else None
    return int(size) if size else None


def timm_preparation(path, config, side, channels):
    """What timm's evaluation does to pictures, as preprocessor_config.json; `side`, `channels` of the model."""
    made = pretrained_of(config)
    way_out = f"write what is to be done into a {PREPARATION} next to it"
    part = made.get("crop_pct") or USUAL_CROP_PART
    interpolation = made.get("interpolation") or "bilinear"
    mode = made.get("crop_mode") or "center"
    if interpolation not in FILTERS:
        sys.exit(f"{path}: interpolation: is {interpolation!r}; {way_out}")
    if mode not in ("center", "squash"):
        sys.exit(f"{path}: crop_mode: is {mode!r}, which adds a border; {way_out}")
    if made.get("crop_border_pixels"):
        sys.exit(f"{path}: crop_border_pixels: is {made['crop_border_pixels']}; {way_out}")
    statistics = {}
    for key, usual in (("mean", USUAL_MEAN), ("std", USUAL_STD)):
        values = list(made.get(key) or usual)
        values = values * channels if len(values) == 1 else values
        if len(values) != channels:
            sys.exit(f"{path}: {key}: has {len(values)} numbers, and the model's pictures {channels} channels; "
                     f"{way_out}")
        statistics["image_" + key] = values
    resized = math.floor(side / part)
    size = {"shortest_edge": resized} if mode == "center" else {"height": resized, "width": resized}
    return {"image_processor_type": "BitImageProcessor", "do_resize": True, "size": size,
            "resample": FILTERS[interpolation], "do_center_crop": True,
            "crop_size": {"height": side, "width": side}, "do_rescale": True,
            "rescale_factor": 1 / 255, "do_normalize": True, **statistics}


def check_target(weights, folder):
    if folder.exists() and weights.parent.resolve() == folder.resolve():
        sys.exit(f"{folder}: has the weights that are to be converted; name another folder")


def write_json(path, members):
    path.write_text(json.dumps(members, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_preparation(weights, folder, made):
    """Copies preprocessor_config.json next to `weights` into `folder`; without it writes `made`, unless None."""
    target = pathlib.Path(folder) / PREPARATION
    if (weights.parent / PREPARATION).exists():
        shutil.copyfile(weights.parent / PREPARATION, target)
    elif made is not None:
        write_json(target, made)
    else:
        target.unlink(missing_ok=True)  # of another model
