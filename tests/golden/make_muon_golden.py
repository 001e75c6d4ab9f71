"""Makes the reference trajectories of Muon in tests/golden/data/muon-* with PyTorch (float32).

    pip install torch transformers
    python tests/golden/make_muon_golden.py

torch.optim.Muon updates the weights of linear layers in blocks, torch.optim.AdamW the rest. What
GPT-2 keeps as one matrix, c_attn, is three for Muon, and GPT-2's matrices are transposed: [out,in]
as torch.nn.Linear has them. Models and tokens are those of make_golden.py. Newton-Schulz runs in
float32: its bfloat16 would say nothing about last bits.
"""
import inspect
import json
import shutil

import numpy
import torch
import torch.optim._muon as muon_module
from safetensors.torch import save_file
from transformers import GPT2LMHeadModel, LlamaForCausalLM

from make_golden import FOLDER, VOCAB, parameters_on_disk

source = inspect.getsource(muon_module._zeropower_via_newtonschulz)
assert "torch.bfloat16" in source
exec(source.replace("torch.bfloat16", "torch.float32"), muon_module.__dict__)


class Matrix:
    """A matrix [out,in] for Muon: a part of a model's parameter."""

    def __init__(self, parameter, part=slice(None), transposed=False):
        self.parameter, self.part, self.transposed = parameter, part, transposed
        self.weight = torch.nn.Parameter(self.of(parameter.data).clone())

    def of(self, tensor):
        return (tensor.T if self.transposed else tensor)[self.part]

    def read(self):
        self.weight.grad = self.of(self.parameter.grad).clone()

    def write(self):
        self.of(self.parameter.data).copy_(self.weight.data)


def matrices_of(model):
    gpt2 = isinstance(model, GPT2LMHeadModel)
    for name, p in model.named_parameters():
        if p.dim() < 2 or not (".h." in name or ".layers." in name):
            continue
        if "c_attn" in name:
            width = p.shape[0]
            for i in range(3):
                yield Matrix(p, slice(i * width, (i + 1) * width), True)
        else:
            yield Matrix(p, transposed=gpt2)


def make(name, base, model, batch, sequence, accumulate, steps, settings):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    model.train()
    tokens = numpy.fromfile(FOLDER / base / "tokens.bin", dtype="<u2")
    matrices = list(matrices_of(model))
    taken = {id(m.parameter) for m in matrices}
    others = [p for p in model.parameters() if id(p) not in taken]
    decay = settings["weight_decay"]
    muon = torch.optim.Muon(
        [m.weight for m in matrices], lr=settings["lr"], weight_decay=decay,
        momentum=settings["momentum"], nesterov=settings["nesterov"],
        ns_steps=settings["newton_schulz_steps"], adjust_lr_fn=settings["adjust_lr"])
    adamw = torch.optim.AdamW(
        [{"params": [p for p in others if p.dim() >= 2], "weight_decay": decay},
         {"params": [p for p in others if p.dim() < 2], "weight_decay": 0.0}],
        lr=settings["lr"], betas=settings["betas"], eps=settings["eps"])
    records = []
    for step in range(steps):
        model.zero_grad()
        total = 0.0
        for micro in range(accumulate):
            start = (step * accumulate + micro) * batch * sequence
            window = torch.from_numpy(tokens[start:start + batch * sequence + 1].astype("int64"))
            logits = model(window[:-1].view(batch, sequence)).logits
            loss = torch.nn.functional.cross_entropy(
                logits.view(-1, VOCAB), window[1:]) / accumulate
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip_grad_norm"])
        for matrix in matrices:
            matrix.read()
        muon.step()
        adamw.step()
        for matrix in matrices:
            matrix.write()
        records.append({"step": step, "loss": total, "grad_norm": norm.item()})

    save_file({n: t.contiguous() for n, t in parameters_on_disk(model).items()},
              folder / "final.safetensors")
    expected = {"base": base, "batch": batch, "sequence": sequence, "vocab": VOCAB,
                "accumulate": accumulate, "optimizer": settings, "torch": torch.__version__,
                "steps": records}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def main():
    torch.set_num_threads(1)
    settings = {"name": "muon", "lr": 3e-3, "betas": [0.9, 0.95], "eps": 1e-8, "momentum": 0.95,
                "nesterov": True, "newton_schulz_steps": 5, "adjust_lr": "match_rms_adamw",
                "weight_decay": 0.1, "clip_grad_norm": 1.0}
    make("muon-gpt2", "gpt2", GPT2LMHeadModel.from_pretrained(FOLDER / "gpt2"), batch=3,
         sequence=24, accumulate=1, steps=10, settings=settings)
    make("muon-llama", "llama", LlamaForCausalLM.from_pretrained(FOLDER / "llama"), batch=3,
         sequence=24, accumulate=1, steps=10,
         settings=settings | {"nesterov": False, "newton_schulz_steps": 4, "adjust_lr": "original"})


if __name__ == "__main__":
    main()
