#!/usr/bin/env python3
"""Takes adapters from Plimsoll to Hugging Face's PEFT and back (PyTorch on the CPU, float32).

    bazel build //app:plimsoll
    python3 tests/trainer/check_lora.py bazel-bin/app/plimsoll

For a small model of every family: trains an adapter and compares its loss on a text in PEFT with that
of `plimsoll eval`, and PEFT's logits with those of the weights that `plimsoll export --merge` writes;
then lets PEFT make an adapter, and compares its loss with that of `plimsoll eval --adapter` and with
the first evaluation of a run that starts from it. The same with a BERT that tells texts apart, whose
pooler and classifier start afresh and belong to the adapter (modules_to_save).
Needs: pip install torch transformers peft.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import peft
import torch
import transformers

MODELS = {
    "gpt2": ("family: gpt2", "attn.c_attn, c_proj", ["c_attn", "mlp.c_proj", "c_fc"]),
    "llama": ("family: llama, kv_heads: 1, ffn_width: 96", "q_proj, v_proj, down_proj",
              ["k_proj", "o_proj", "gate_proj"]),
    "qwen2": ("family: qwen2, kv_heads: 1, ffn_width: 96, tied: true", "all-linear", "all-linear"),
    "qwen3": ("family: qwen3, kv_heads: 1, ffn_width: 96, head_width: 24", "q_proj, o_proj, up_proj",
              ["k_proj", "v_proj", "down_proj"]),
    "phi3": ("family: phi3, kv_heads: 1, ffn_width: 96, rotary_width: 12", "all-linear",
             "all-linear"),
    "mistral": ("family: mistral, kv_heads: 1, ffn_width: 96", "all-linear", "all-linear"),
    "gemma2": ("family: gemma2, kv_heads: 1, ffn_width: 96, window: 9", "q_proj, o_proj, up_proj",
               ["k_proj", "v_proj", "down_proj"]),
    "gemma3_text": ("family: gemma3_text, kv_heads: 1, ffn_width: 96, window: 9, window_pattern: 2",
                    "all-linear", "all-linear"),
}
SEQUENCE = 32
# For losses, and for logits relative to their norm: only the order of sums differs.
TOLERANCE = 2e-6


def run(*command):
    result = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr}")
    return result.stdout


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()


def windows_of(data):
    tokens = torch.frombuffer(bytearray(data.read_bytes()), dtype=torch.uint8).long()
    count = (len(tokens) - 1) // SEQUENCE
    return (tokens[:count * SEQUENCE].view(count, SEQUENCE),
            tokens[1:count * SEQUENCE + 1])


def logits_of(model, data):
    with torch.no_grad():
        return model.eval()(windows_of(data)[0]).logits.float()


def loss_of(model, data):
    return torch.nn.functional.cross_entropy(logits_of(model, data).flatten(0, 1),
                                             windows_of(data)[1]).item()


class Check:
    def __init__(self, plimsoll, family, folder):
        self.plimsoll, self.family, self.folder = plimsoll, family, folder
        self.sizes, self.targets, self.peft_targets = MODELS[family]
        self.base = folder / "base/model"
        self.text = folder / "text"
        self.text.write_text("".join(f"One, two, three: number {i} is alive.\n"
                                     for i in range(300)))
        self.good = True

    def expect(self, what, difference):
        same = difference < TOLERANCE
        self.good = self.good and same
        print(f"{'ok    ' if same else 'FAILED'} {self.family}: {what}: by {difference:.1e}")

    def train(self, name, model, more="", steps=20):
        config = self.folder / f"{name}.yaml"
        config.write_text(f"""
model: {{{model}, sequence: {SEQUENCE}}}
data: {{train: {self.text}, eval: {self.text}, format: text, tokenizer: byte}}
train: {{steps: {steps}, micro_batch: 4, eval_every: {steps}, eval_sequences: 0, threads: 1}}
optimizer: {{lr: 1e-2}}
memory: {{summary: false, calibrate: false}}
device: cpu
run: {{dir: {self.folder / name}}}
{more}
""")
        run(self.plimsoll, "train", config)

    def evaluate(self, folder, *more):
        return json.loads(run(self.plimsoll, "eval", folder, "--data", self.text, "--tokenizer",
                              "byte", "--sequence", SEQUENCE, "--json", *more))["loss"]

    def from_plimsoll_to_peft(self):
        self.train("run", f"init_from: {self.base}",
                   f"lora: {{rank: 4, alpha: 8, targets: [{self.targets}], modules_to_save: "
                   "[lm_head]}")
        adapter = self.folder / "run/adapter"
        model = peft.PeftModel.from_pretrained(load(self.base), adapter)
        theirs, plain = loss_of(model, self.text), loss_of(load(self.base), self.text)
        ours = self.evaluate(self.folder / "run")
        self.expect(f"our adapter in PEFT: loss {ours:.6f}, there {theirs:.6f}, without the "
                    f"adapter {plain:.6f}", abs(ours - theirs) / theirs)
        merged = self.folder / "merged"
        run(self.plimsoll, "export", self.folder / "run", "--to", merged, "--merge")
        want = logits_of(model, self.text)
        got = logits_of(load(merged), self.text)
        self.expect("logits of merged weights", ((got - want).norm() / want.norm()).item())

    def from_peft_to_plimsoll(self):
        torch.manual_seed(5)
        model = peft.get_peft_model(load(self.base), peft.LoraConfig(
            task_type="CAUSAL_LM", r=3, lora_alpha=5, use_rslora=True,
            target_modules=self.peft_targets, fan_in_fan_out=self.family == "gpt2"))
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.data.normal_(std=0.1)
        adapter = self.folder / "peft"
        model.save_pretrained(adapter)
        theirs, plain = loss_of(model, self.text), loss_of(load(self.base), self.text)
        ours = self.evaluate(self.base, "--adapter", adapter)
        self.expect(f"PEFT's adapter here: loss {ours:.6f}, there {theirs:.6f}, without the "
                    f"adapter {plain:.6f}", abs(ours - theirs) / theirs)
        self.train("goes-on", f"init_from: {self.base}", f"lora: {{init_from: {adapter}}}",
                   steps=1)
        rows = (self.folder / "goes-on/metrics.jsonl").read_text().splitlines()
        first = next(row["eval_loss"] for row in map(json.loads, rows) if "eval_loss" in row)
        self.expect(f"a run from it begins at loss {first:.6f}", abs(first - theirs) / theirs)


class CheckClassifier:
    LABELS = ["apple", "pear", "plum"]

    def __init__(self, plimsoll, folder):
        self.plimsoll, self.folder = plimsoll, folder
        self.base = folder / "base/model"
        self.good = True
        self.vocab = folder / "vocab.txt"
        letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
        self.vocab.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters,
                                         *("##" + letter for letter in letters)]) + "\n")
        self.texts = [("abc"[i % 3] * (1 + i % 4) + " text", i % 3) for i in range(48)]
        (folder / "texts.jsonl").write_text("".join(
            json.dumps({"text": text, "label": self.LABELS[label]}) + "\n"
            for text, label in self.texts))
        (folder / "texts.txt").write_text("some more words of text\n" * 100)

    def config(self, name, model, data, more=""):
        config = self.folder / f"{name}.yaml"
        config.write_text(f"""
model: {{{model}, sequence: 16}}
data: {{{data}, tokenizer: {self.vocab}}}
train: {{steps: 20, micro_batch: 4, threads: 1, eval_every: 0}}
optimizer: {{lr: 1e-2}}
memory: {{summary: false, calibrate: false}}
device: cpu
run: {{dir: {self.folder / name}}}
{more}
""")
        return config

    def expect(self, what, ours, theirs):
        difference = abs(ours - theirs) / theirs
        same = difference < TOLERANCE
        self.good = self.good and same
        print(f"{'ok    ' if same else 'FAILED'} bert: {what}: loss {ours:.6f}, in PEFT "
              f"{theirs:.6f}: by {difference:.1e}")

    def load(self, folder):
        return transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32, num_labels=3, attn_implementation="eager").eval()

    def loss_of(self, model):
        tokenizer = transformers.BertTokenizer(str(self.vocab))
        inputs = tokenizer([text for text, _ in self.texts], padding=True, return_tensors="pt")
        labels = torch.tensor([label for _, label in self.texts])
        with torch.no_grad():
            return torch.nn.functional.cross_entropy(model.eval()(**inputs).logits, labels).item()

    def evaluate(self, *arguments):
        return json.loads(run(self.plimsoll, "eval", *arguments, "--json"))["loss"]

    def both_ways(self):
        run(self.plimsoll, "train",
            self.config("base", "family: bert, layers: 2, width: 32, heads: 2",
                        f"source: masked_text, train: {self.folder / 'texts.txt'}"))
        texts = self.folder / "texts.jsonl"
        model_text = f"init_from: {self.base}, task: classification, classes: 3"
        data = f"source: labelled_text, train: {texts}, eval: {texts}"
        run(self.plimsoll, "train",
            self.config("run", model_text, data, "lora: {rank: 4, alpha: 8, targets: [query, dense], "
                        "modules_to_save: [embeddings.LayerNorm]}"))
        adapter = self.folder / "run/adapter"
        theirs = self.loss_of(peft.PeftModel.from_pretrained(self.load(self.base), adapter))
        self.expect("our adapter", self.evaluate(self.folder / "run"), theirs)
        merged = self.folder / "merged"
        run(self.plimsoll, "export", self.folder / "run", "--to", merged, "--merge")
        self.expect("merged weights", self.loss_of(self.load(merged)), theirs)

        torch.manual_seed(5)
        model = peft.get_peft_model(self.load(self.base), peft.LoraConfig(
            task_type="SEQ_CLS", r=3, lora_alpha=5, target_modules=["query", "key"],
            modules_to_save=["pooler"]))
        for name, parameter in model.named_parameters():
            if "lora_B" in name or "modules_to_save" in name:
                parameter.data.normal_(std=0.1)
        model.save_pretrained(self.folder / "peft")
        self.expect("PEFT's adapter",
                    self.evaluate(self.base, "--adapter", self.folder / "peft", "--run-file",
                                  self.config("plain", model_text, data)), self.loss_of(model))


def check(plimsoll, family, folder):
    checks = Check(plimsoll, family, folder)
    checks.train("base", f"{MODELS[family][0]}, layers: 2, width: 64, heads: 2", steps=30)
    checks.from_plimsoll_to_peft()
    checks.from_peft_to_plimsoll()
    return checks.good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plimsoll", help="the built //app:plimsoll")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="work in this folder")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as temporary:
        results = []
        for family in MODELS:
            folder = (arguments.keep or pathlib.Path(temporary)) / family
            folder.mkdir(parents=True)
            results.append(check(arguments.plimsoll, family, folder))
        folder = (arguments.keep or pathlib.Path(temporary)) / "bert"
        folder.mkdir(parents=True)
        classifier = CheckClassifier(arguments.plimsoll, folder)
        classifier.both_ways()
        results.append(classifier.good)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
