"""Small data and models for the examples of pages that need some, made in a folder.

A page shows what the models of configs/ answer. These models replace them: they have the same kinds of inputs and
classes, and learn in seconds.
"""
import gzip
import json
import pathlib
import struct

SIDE = 8  # of a picture, in pixels
SHADES = [20, 140, 250]  # a class each

PICTURES = """
model: {family: vit, layers: 1, width: 16, heads: 2, patch: 4, image_size: 8, channels: 1, classes: 3}
data: {source: images, folder: fashion-mnist, class_names: [Sandal, Dress, Trouser]}
train: {steps: 200, micro_batch: 20, threads: 1, eval_every: 0}
optimizer: {lr: 5e-3}
memory: {calibrate: false}
run: {dir: runs/fashion_mnist_vit}
device: cpu
"""

VOLUMES = """
model: {family: unet, image_depth: 16, image_height: 16, image_width: 16, levels: 2, features: 4}
data: {source: volumes, folder: Task03_Liver}
train: {steps: 1, micro_batch: 2, threads: 1, eval_every: 0}
memory: {calibrate: false}
run: {dir: runs/liver}
device: cpu
"""

WORDS = """
model: {family: bert, layers: 2, width: 32, heads: 2, sequence: 16, dropout: 0}
data: {source: masked_text, train: words.txt, tokenizer: vocabulary}
train: {steps: 1500, micro_batch: 16, threads: 1, eval_every: 0}
optimizer: {lr: 2e-3}
memory: {calibrate: false}
run: {dir: runs/bert_fortunes}
device: cpu
"""


ANSWERS = """
model: {family: gpt2, layers: 1, width: 16, heads: 1, sequence: 32}
data: {train: answers.jsonl, tokenizer: byte}
train: {steps: 1, micro_batch: 1, threads: 1, eval_every: 0}
memory: {calibrate: false}
run: {dir: runs/answers}
device: cpu
"""

# Weights, and a run that starts from them.
WEIGHTS = """
model: {family: vit, layers: 1, width: 8, heads: 1, patch: 112, image_size: 224, channels: 3}
data: {source: images, folder: photos}
train: {steps: 1, micro_batch: 1, threads: 1, eval_every: 0}
memory: {calibrate: false}
run: {dir: runs/vit}
device: cpu
"""
FROM_WEIGHTS = """
model: {init_from: models/vit}
data: {source: images, folder: photos}
train: {steps: 1, micro_batch: 1, threads: 1, eval_every: 0}
memory: {calibrate: false}
run: {dir: runs/photos}
device: cpu
"""

PREPARED = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_processor_type": "ViTImageProcessor",
    "image_std": [0.5, 0.5, 0.5],
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
    "size": {"height": 224, "width": 224},
}


def _train(folder, program, run_file):
    (folder / "run.yaml").write_text(run_file)
    program("train", "run.yaml")


def _shades(folder):
    """Pictures of three shades, a class each, as files of MNIST's form in fashion-mnist/."""
    data = folder / "fashion-mnist"
    data.mkdir()
    for part, labels in [("train", [0, 1, 2] * 20), ("t10k", [1, 0, 2, 1])]:
        pixels = bytes(
            max(0, min(255, SHADES[label] + (i * 37 + k * 11) % 17 - 8))
            for i, label in enumerate(labels)
            for k in range(SIDE * SIDE)
        )
        with gzip.open(data / f"{part}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">4I", 0x803, len(labels), SIDE, SIDE) + pixels)
        with gzip.open(data / f"{part}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">2I", 0x801, len(labels)) + bytes(labels))


def pictures(folder, program):
    """runs/fashion_mnist_vit, which tells pictures by their shade."""
    _shades(folder)
    _train(folder, program, PICTURES)


def volumes(folder, program):
    """runs/liver, and Task03_Liver with a volume for tests that has no label."""
    program("data", "volumes", "Task03_Liver", "--train", "2", "--test", "1", "--size", "16", "--classes", "2")
    data = folder / "Task03_Liver"
    (data / "labelsTs/volume_0002.nii.gz").unlink()
    (data / "labelsTs").rmdir()
    (data / "imagesTs/volume_0002.nii.gz").rename(data / "imagesTs/liver_7.nii.gz")
    described = data / "dataset.json"
    described.write_text(described.read_text().replace("volume_0002", "liver_7").replace("ellipsoid 1", "liver"))
    _train(folder, program, VOLUMES)


def words(folder, program):
    """runs/bert_fortunes, which knows one sentence by heart, and lines.txt with a gap in it."""
    (folder / "words.txt").write_text("some more words of text\n" * 200)
    program("data", "wordpiece", "words.txt", "--size", "60", "--out", "vocabulary")
    _train(folder, program, WORDS)
    (folder / "lines.txt").write_text("some more [MASK] of text\n")


def answers(folder, program):
    """run.yaml for six examples of 16 tokens, two in a row."""
    lines = [{"prompt": f"{i} + {i} = ", "completion": "number "} for i in range(6)]
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "run.yaml").write_text(ANSWERS)


def prepared_pictures(folder, program):
    """run.yaml for a run from models/vit, whose preprocessor_config.json says how pictures are prepared."""
    _shades(folder)
    program("data", "images", "photos", "--from", "fashion-mnist", "--format", "jpeg", "--train", "2", "--test", "1")
    for part in ["train", "test"]:
        for empty in [kind for kind in (folder / "photos" / part).iterdir() if not any(kind.iterdir())]:
            empty.rmdir()
    _train(folder, program, WEIGHTS)
    (folder / "models").mkdir()
    (folder / "runs/vit/model").rename(folder / "models/vit")
    (folder / "models/vit/preprocessor_config.json").write_text(json.dumps(PREPARED))
    (folder / "run.yaml").write_text(FROM_WEIGHTS)


# The pages, each with what its examples need.
NEEDED = {"predicting.md": [pictures, volumes, words]}

# Pages that show lines of a run's start: how these begin, and what makes the data and the run file, run.yaml.
STARTS = {
    "fine_tuning.md": ("6 examples in 3 rows", answers),
    "images.md": ("pictures as models/vit/", prepared_pictures),
}


def make(page: str, folder: pathlib.Path, program) -> bool:
    """Makes the data of a page by `program(argument, …)`, which runs in the folder. Whether it needs any."""
    for maker in NEEDED.get(page, []):
        maker(folder, program)
    return page in NEEDED
