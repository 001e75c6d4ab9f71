"""Makes the reference trajectories of adapters in tests/golden/data/lora-* with PEFT (float32).

    pip install torch transformers peft
    python tests/golden/make_lora_golden.py [NAME…]      all, or those named: lora-phi3 lora-gemma3

Their models and tokens are those of make_golden.py. B starts away from zero, so that the adapter
counts, and A learns, from the first step on.
"""
import json
import pathlib
import shutil
import sys

import numpy
import peft
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from make_golden import FOLDER, OPTIMIZER, VOCAB

ADAPTERS = {
    "lora-llama": ("llama", {"r": 3, "lora_alpha": 6, "use_rslora": False,
                             "target_modules": ["q_proj", "v_proj", "o_proj", "gate_proj",
                                                "down_proj"]}),
    "lora-gpt2": ("gpt2-accumulate", {"r": 4, "lora_alpha": 2, "use_rslora": True,
                                      "target_modules": ["c_attn", "c_proj"],
                                      "fan_in_fan_out": True}),
}
# Made by themselves, so that the others' random numbers stay.
LATER_ADAPTERS = {
    "lora-phi3": ("phi3", {"r": 3, "lora_alpha": 6, "use_rslora": False,
                           "target_modules": ["qkv_proj", "gate_up_proj", "o_proj"]}),
    "lora-gemma3": ("gemma3", {"r": 3, "lora_alpha": 6, "use_rslora": False,
                               "target_modules": ["q_proj", "k_proj", "o_proj", "up_proj",
                                                  "down_proj"]}),
}
STEPS = 6


def save_adapter(model, folder):
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = None
    config["target_modules"].sort()
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")


def make(name, base, settings):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    given = json.loads((FOLDER / base / "expected.json").read_text())
    batch, sequence, accumulate = given["batch"], given["sequence"], given["accumulate"]
    tokens = numpy.fromfile(FOLDER / base / "tokens.bin", dtype="<u2").astype("int64")

    model = AutoModelForCausalLM.from_pretrained(FOLDER / base, attn_implementation="eager")
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0,
                                                       **settings))
    for parameter_name, p in model.named_parameters():
        if "lora_B" in parameter_name:
            p.data.normal_(std=0.2)
    model.train()
    save_adapter(model, folder / "adapter")

    window = torch.from_numpy(tokens[:sequence]).view(1, sequence)
    with torch.no_grad():
        save_file({"logits": model(window).logits[0].float().contiguous()},
                  folder / "logits.safetensors")

    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, weight_decay=OPTIMIZER["weight_decay"],
                                  lr=OPTIMIZER["lr"], betas=OPTIMIZER["betas"],
                                  eps=OPTIMIZER["eps"])
    records = []
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for micro in range(accumulate):
            start = (step * accumulate + micro) * batch * sequence
            window = torch.from_numpy(tokens[start:start + batch * sequence + 1])
            logits = model(window[:-1].view(batch, sequence)).logits
            loss = torch.nn.functional.cross_entropy(
                logits.view(-1, VOCAB), window[1:]) / accumulate
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(trained, OPTIMIZER["clip_grad_norm"])
        optimizer.step()
        records.append({"step": step, "loss": total, "grad_norm": norm.item()})
    save_adapter(model, folder / "final")

    expected = {"base": base, "batch": batch, "sequence": sequence, "vocab": VOCAB,
                "accumulate": accumulate, "optimizer": OPTIMIZER, "torch": torch.__version__,
                "peft": peft.__version__, "steps": records}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def main():
    torch.set_num_threads(1)
    named = set(sys.argv[1:])
    if not named:
        torch.manual_seed(12)
        for name, (base, settings) in ADAPTERS.items():
            make(name, base, settings)
    for name, (base, settings) in LATER_ADAPTERS.items():
        if named and name not in named:
            continue
        torch.manual_seed(13)
        make(name, base, settings)


if __name__ == "__main__":
    main()
