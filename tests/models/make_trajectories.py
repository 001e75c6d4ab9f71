#!/usr/bin/env python3
"""Makes tests/models/trajectories/*.safetensors: what PyTorch makes of ten steps of training models
that see images or whole texts (float32 on the CPU), and of their first forward pass.

    pip install torch torchvision "transformers<5" safetensors
    python3 tests/models/make_trajectories.py [CASE ...]

Weights and data follow from names by check_with_torchvision.py's formulas, so that no tensors need
to be kept. Recorded are the logits of the first batch, the loss and the norm of all gradients of
each step, and how far each tensor has moved in all of them, in float64. The rest of a case is JSON
in the header's metadata, "case".
"""
import json
import math
import pathlib
import sys

import numpy
import safetensors.numpy
import torch
import torchvision
import transformers
from torch.nn import functional as F

from check_with_torchvision import formula, uniform

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
from unet_peer import UNet, dice_cross_entropy  # noqa: E402

FOLDER = pathlib.Path(__file__).parent / "trajectories"
STEPS = 10
VOCAB, CLASSES = 61, 7
BERT = dict(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=3, num_attention_heads=3,
            intermediate_size=40, max_position_embeddings=16, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0)


def integers(name, count, below):
    return numpy.floor((uniform(name, count) + 1) / 2 * below).astype(numpy.int64)


class Texts:
    """tokens, token types, lengths, and targets of each task; as the test makes them."""

    def __init__(self, step, batch, sequence, padded):
        def draw(kind, count, below):
            return torch.from_numpy(integers(f"{kind}.{step}", count, below))
        count = batch * sequence
        # Token 0 pads: transformers does not train its embedding.
        self.tokens = 1 + draw("tokens", count, VOCAB - 1).view(batch, sequence)
        self.types = draw("token_types", count, 2).view(batch, sequence)
        lengths = 1 + draw("lengths", batch, sequence) if padded else torch.full((batch,), sequence)
        self.mask = (torch.arange(sequence)[None] < lengths[:, None]).long()
        # Every third place counts, but no padding; the first place always.
        counts = (torch.arange(sequence)[None] % 3 == 0) & (self.mask == 1)
        targets = draw("targets", count, VOCAB).view(batch, sequence)
        self.targets = torch.where(counts, targets, -100)
        self.labels = draw("labels", batch, CLASSES)
        self.follows = draw("next_sentence", batch, 2)

    def inputs(self):
        return dict(input_ids=self.tokens, token_type_ids=self.types, attention_mask=self.mask)


def images(step, batch, size, channels=3):
    values = uniform(f"images.{step}", batch * size * size * channels).astype(numpy.float32)
    return torch.from_numpy(values).view(batch, size, size, channels).permute(0, 3, 1, 2)


def labels(step, batch):
    return torch.from_numpy(integers(f"labels.{step}", batch, CLASSES))


def text_case(make, task, padded):
    batch, sequence = 6, 12
    config = transformers.BertConfig(**BERT, num_labels=CLASSES, attn_implementation="eager")
    model = make(config)

    def loss(step):
        texts = Texts(step, batch, sequence, padded)
        inputs = texts.inputs()
        if task == "masked_lm":
            return model(**inputs, labels=texts.targets).loss
        if task == "pretraining":
            return model(**inputs, labels=texts.targets, next_sentence_label=texts.follows).loss
        return model(**inputs, labels=texts.labels).loss

    def logits():
        outputs = model(**Texts(0, batch, sequence, padded).inputs())
        return outputs.logits if task == "classification" else None

    settings = dict(task=task, padded=padded, sequence=sequence, dropout=0.0)
    if task == "classification":
        settings["classes"] = CLASSES
    return model, loss, logits, dict(batch=batch, settings=settings)


def vit_case():
    batch, size = 5, 12
    config = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=40,
        image_size=size, patch_size=4, num_channels=3, num_labels=CLASSES,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager")
    model = transformers.ViTForImageClassification(config)

    def logits(step=0):
        return model(pixel_values=images(step, batch, size)).logits

    def loss(step):
        return F.cross_entropy(logits(step), labels(step, batch))
    return model, loss, logits, dict(batch=batch, settings=dict(dropout=0.0))


def resnet_case(depth):
    batch, size = 6, 64
    model = getattr(torchvision.models, f"resnet{depth}")(num_classes=CLASSES)

    def loss(step):
        return F.cross_entropy(model(images(step, batch, size)), labels(step, batch),
                               label_smoothing=0.1)

    def logits():
        model.eval()
        result = model(images(0, batch, size))
        model.train()
        return result
    config = dict(model_type="resnet", depth=depth, image_size=size, classes=CLASSES)
    return model, loss, logits, dict(batch=batch, settings=dict(label_smoothing=0.1), config=config)


def unet_case(*sides):
    batch, channels = 3, 2
    sizes = dict(channels=channels, classes=CLASSES, levels=3, features=6, most_features=20)
    model = UNet(len(sides) == 3, **sizes)

    def pixels(step):
        values = uniform(f"images.{step}", batch * math.prod(sides) * channels)
        return torch.from_numpy(values.astype(numpy.float32)).view(
            batch, *sides, channels).movedim(-1, 1)

    def loss(step):
        return dice_cross_entropy(model(pixels(step)), torch.from_numpy(
            integers(f"labels.{step}", batch * math.prod(sides), CLASSES)).view(batch, *sides))

    def logits():
        return model(pixels(0)).movedim(1, -1)
    named = dict(zip(("image_width", "image_height", "image_depth"), reversed(sides)))
    config = dict(model_type="unet", **named, **sizes)
    return model, loss, logits, dict(batch=batch, settings={}, config=config)


class Dcgan(torch.nn.Module):
    """PyTorch's example, with our names; `features` are those next to the image. `spectral`: the
    discriminator's convolutions have spectral norms, and no batch norms follow them."""

    class Block(torch.nn.Module):
        def __init__(self, conv, norm):
            super().__init__()
            self.conv = conv
            if norm:
                self.norm = torch.nn.BatchNorm2d(conv.out_channels)

        def forward(self, x):
            x = self.conv(x)
            return self.norm(x) if hasattr(self, "norm") else x

    def __init__(self, blocks, channels, latent, generator_features, discriminator_features,
                 spectral=False):
        super().__init__()
        up = [latent] + [generator_features << i for i in reversed(range(blocks))] + [channels]
        down = [channels] + [discriminator_features << i for i in range(blocks)] + [1]

        def blocks_of(kind, widths, stride_1, without_norm):
            return torch.nn.ModuleDict({"block": torch.nn.ModuleList(
                self.Block(kind(widths[i], widths[i + 1], 4, 1 if i == stride_1 else 2,
                                0 if i == stride_1 else 1, bias=False), i not in without_norm)
                for i in range(len(widths) - 1))})
        self.generator = blocks_of(torch.nn.ConvTranspose2d, up, 0, [blocks])
        self.discriminator = blocks_of(torch.nn.Conv2d, down, blocks,
                                       range(blocks + 1) if spectral else [0, blocks])
        if spectral:
            for block in self.discriminator["block"]:
                torch.nn.utils.parametrizations.spectral_norm(block.conv)

    def make(self, noise):
        x = noise[:, :, None, None]
        for block in self.generator["block"][:-1]:
            x = torch.relu(block(x))
        return torch.tanh(self.generator["block"][-1](x))

    def judge(self, x, target):
        for block in self.discriminator["block"][:-1]:
            x = F.leaky_relu(block(x), 0.2)
        said = self.discriminator["block"][-1](x).flatten()
        return F.binary_cross_entropy_with_logits(said, torch.full_like(said, target))


def make_dcgan(file, spectral):
    """Ten steps of the discriminator and the generator in turn, as PyTorch's example has them."""
    batch, size, channels, latent = 6, 16, 2, 5
    torch.manual_seed(0)
    model = Dcgan(2, channels, latent, 3, 4, spectral)
    names = [n for n in model.state_dict() if not n.endswith("num_batches_tracked")]
    state = {n: formula(n, list(model.state_dict()[n].shape)) for n in names}
    model.load_state_dict(state, strict=False)
    case = {"lr": 0.01, "momentum": 0.9, "steps": STEPS, "batch": batch, "settings": {},
            "config": dict(model_type="dcgan", image_size=size, channels=channels, latent=latent,
                           generator_features=3, discriminator_features=4,
                           **({"discriminator_norm": "spectral"} if spectral else {}))}
    parts = {"discriminator": model.discriminator, "generator": model.generator}
    optimizers = {n: torch.optim.SGD(p.parameters(), lr=0.01, momentum=0.9)
                  for n, p in parts.items()}
    for name in parts:
        case[f"{name}_losses"], case[f"{name}_norms"] = [], []

    def update(name, value):
        case[f"{name}_losses"].append(float(f"{value.item():.8g}"))
        norm = math.sqrt(sum((p.grad.double() ** 2).sum().item() for p in parts[name].parameters()))
        case[f"{name}_norms"].append(float(f"{norm:.8g}"))
        optimizers[name].step()

    for step in range(STEPS):
        noise = uniform(f"noise.{step}", batch * latent).astype(numpy.float32)
        model.discriminator.zero_grad()
        real = model.judge(images(step, batch, size, channels), 1.0)
        real.backward()
        made = model.make(torch.from_numpy(noise).view(batch, latent))
        fake = model.judge(made.detach(), 0.0)
        fake.backward()
        update("discriminator", real + fake)
        model.generator.zero_grad()
        value = model.judge(made, 1.0)
        value.backward()
        update("generator", value)
    write(file, case, names, state, model)
    print(file, case["discriminator_losses"], case["generator_losses"])


CASES = {
    "bert-masked": lambda: text_case(transformers.BertForMaskedLM, "masked_lm", False),
    "bert-masked-padded": lambda: text_case(transformers.BertForMaskedLM, "masked_lm", True),
    "bert-pretraining": lambda: text_case(transformers.BertForPreTraining, "pretraining", True),
    "bert-classification": lambda: text_case(
        transformers.BertForSequenceClassification, "classification", True),
    "vit": vit_case,
    "resnet50": lambda: resnet_case(50),
    "unet-2d": lambda: unet_case(12, 16),
    "unet-3d": lambda: unet_case(8, 12, 4),
}


def numbers(tensor):
    return [float(f"{x:.8g}") for x in tensor.detach().flatten().tolist()]


def write(name, case, names, state, model):
    """`state`: the tensors of these names before the first step."""
    case["names"] = names
    case["shapes"] = [" ".join(map(str, state[n].shape)) for n in names]
    case["moved"] = [float(f"{(model.state_dict()[n].double() - state[n].double()).norm():.6g}")
                     for n in names]
    FOLDER.mkdir(exist_ok=True)
    recorded = {k: numpy.array(v, dtype=numpy.float64) for k, v in case.items()
                if isinstance(v, list) and k not in ("names", "shapes")}
    rest = {k: v for k, v in case.items() if k not in recorded}
    safetensors.numpy.save_file(recorded, FOLDER / f"{name}.safetensors",
                                metadata={"case": json.dumps(rest)})


def make(name):
    torch.manual_seed(0)
    model, loss, logits, case = CASES[name]()
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    names = [n for n in model.state_dict() if n not in tied and not n.endswith("position_ids")]
    state = {n: formula(n, list(model.state_dict()[n].shape)) for n in names}
    model.load_state_dict(state, strict=False)
    lr = 0.003 if name.startswith("resnet") else 0.01
    case = {"lr": lr, "momentum": 0.9, "steps": STEPS, **case}
    if "config" not in case:
        case["config"] = json.loads(model.config.to_json_string())
        case["config"]["architectures"] = [type(model).__name__]
    model.train()
    with torch.no_grad():
        first = logits()
    if first is not None:
        case["logits"] = numbers(first)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    case["losses"], case["norms"] = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        value = loss(step)
        value.backward()
        norm = math.sqrt(sum((p.grad.double() ** 2).sum().item() for p in model.parameters()
                             if p.grad is not None))
        optimizer.step()
        case["losses"].append(float(f"{value.item():.8g}"))
        case["norms"].append(float(f"{norm:.8g}"))
    write(name, case, names, state, model)
    print(name, case["losses"])


for name in sys.argv[1:] or [*CASES, "dcgan", "dcgan-spectral"]:
    if name.startswith("dcgan"):
        make_dcgan(name, name == "dcgan-spectral")
    else:
        make(name)
