"""Small data and models for the examples of pages that need some, made in a folder.

A page shows what the models of configs/ answer. These stand in for them: they have the same kinds of inputs and classes, and
learn in seconds.
"""
import gzip
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


def _train(folder, program, run_file):
    (folder / "run.yaml").write_text(run_file)
    program("train", "run.yaml")


def pictures(folder, program):
    """runs/fashion_mnist_vit, which tells pictures by their shade, and files of MNIST's form in fashion-mnist/."""
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


# The pages, each with what its examples need.
NEEDED = {"predicting.md": [pictures, volumes, words]}


def make(page: str, folder: pathlib.Path, program) -> bool:
    """Makes the data of a page by `program(argument, …)`, which runs in the folder. Whether it needs any."""
    for maker in NEEDED.get(page, []):
        maker(folder, program)
    return page in NEEDED
