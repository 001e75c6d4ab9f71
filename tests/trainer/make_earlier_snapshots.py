#!/usr/bin/env python3
"""usage: make_earlier_snapshots.py PLIMSOLL PLIMSOLL_WITH_STATES MPIRUN.SH [CASE…]

Makes tests/trainer/earlier_snapshots/: small snapshots, each with what the program that wrote it made of it afterwards.
Run by hand, with the programs of the version that later ones are compared with. Made with: plimsoll 0.1.0 (d94ea0078bfc).

A case is a folder:
  run.yaml       the run, which makes 4 steps
  start.tar.gz   snapshot/, written after 2 steps, and other files that the run reads; packed, since manifests and headers
                 would be most of all bytes
  after.json     "exports": checksums of the weights that `plimsoll export` makes of the snapshot; "continuations": ways to
                 make the other 2 steps, with the rows of metrics.jsonl and the tensors of the snapshot after the last
                 step, each as "name part/parts type shape CRC-32C"

Numbers do not depend on the processor: nothing is calibrated, and CPU kernels give the same bits with AVX2 and AVX-512
(ops/cpu/packed_gemm.h) and on any number of threads. Another compiler, other options (--config=native, sanitizers) or another
libm may round differently.
"""
import array
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

STEPS, SAVED = 4, 2
# Members of rows that differ from run to run, that say how much memory was used, or that are sentences.
UNSTEADY = ("diverged", "step_ms", "data_ms", "tokens_per_s", "samples_per_s", "mfu", "arena_bytes", "resident_bytes", "gpu_bytes")

COMMON = {
    "train": {"steps": STEPS, "micro_batch": 2, "eval_every": 2, "eval_sequences": 4, "log_every": 0, "threads": 1},
    "optimizer": {"lr": 0.01},
    "memory": {"summary": "none", "calibrate": False},
    "save": {"every": SAVED, "model": False},
    "log": {"csv": False, "tensorboard": False, "report": False},
    "run": {"dir": "run"},
    "device": "cpu",
}
SYNTHETIC = {"data": {"synthetic": True}}


def model(family, **keys):
    return {"model": {"family": family, **keys}}


def merged(*layers):
    result = {}
    for layer in layers:
        for section, keys in layer.items():
            result[section] = {**result.get(section, {}), **keys} if isinstance(keys, dict) else keys
    return result


GPT2 = {**model("gpt2", layers=1, width=4, heads=2, vocab=16, sequence=8), **SYNTHETIC}
LLAMA = {**model("llama", layers=1, width=4, heads=2, ffn_width=8, vocab=16, sequence=8), **SYNTHETIC}
QWEN2 = {**model("qwen2", layers=1, width=8, heads=2, kv_heads=2, ffn_width=8, vocab=16, sequence=8), **SYNTHETIC}
# A matrix of 4,096 elements, from which on moments have 8 bits.
WIDE = {**model("llama", layers=1, width=4, heads=2, ffn_width=8, vocab=1024, sequence=8, tied=True), **SYNTHETIC}
TEXT = {
    **model("gpt2", layers=1, width=4, heads=2, vocab=256, sequence=8, dropout=0.1),
    "data": {"train": "text", "format": "text", "tokenizer": "byte", "eval_fraction": 0.2, "document_separator": "%"}
}
BERT = {
    **model("bert", layers=1, width=4, heads=2, ffn_width=8, vocab=16, sequence=8, max_sequence=8, task="pretraining"),
    "data": {"source": "masked_text", "synthetic": True, "pairs": True}
}
IMAGES = {"data": {"source": "synthetic_images"}}
VIT = {**model("vit", layers=1, width=4, heads=2, ffn_width=8, image_size=8, patch=4, channels=1, classes=3), **IMAGES}
DCGAN = {
    **model("dcgan", image_size=8, channels=1, latent=3, generator_features=2, discriminator_features=2), **IMAGES,
    "optimizer": {"betas": [0.5, 0.999], "weight_decay": 0, "clip_grad_norm": 0}
}
REMEMBERING = {**model("remembering"), "data": {"source": "numbered_points"}}
BF16 = {"amp": {"dtype": "bf16"}}
# Steps overflow, and are skipped, or make the scale grow.
FP16 = {"amp": {"dtype": "fp16", "init_scale": 5e5, "growth_interval": 1}}
FP16_WITHOUT_OVERFLOW = {"amp": {"dtype": "fp16", "growth_interval": 1}}

# Runs that start from checkpoints, which the run `base` leaves in base/. Of large ones most elements are made zeros, and stay
# so, so that they pack well.
FROM_BASE = {"model": {"init_from": "base", "sequence": 8}, **SYNTHETIC}
# An embedding of 512 KiB: weights from 256 KiB on are on the host.
LARGE = merged(LLAMA, model("llama", vocab=32768))
FROM_LARGE = {"model": {"init_from": "base", "sequence": 8}, "data": TEXT["data"]}
RESNET_BASE = {**model("resnet", depth=8, image_size=8, channels=1, classes=3), **IMAGES}
RESNET = {"model": {"init_from": "base", "image_size": 8}, **IMAGES}


def optimizer(**keys):
    return {"optimizer": keys}


def train(**keys):
    return {"train": keys}


def parallel(**keys):
    return {"parallel": keys}


class Case:

    # `more`: continuations besides the one that changes nothing, as (ranks, sets).
    def __init__(self, *sections, ranks=1, more=(), with_states=False, text=False, base=None):
        self.ranks, self.with_states, self.text, self.base = ranks, with_states, text, base
        self.continuations = [(ranks, [])] + list(more)
        self.run = merged(COMMON, *sections)


CASES = {
    # Types of weights and of state.
    "adamw": Case(TEXT, text=True),
    "sgd": Case(LLAMA, optimizer(name="sgd", lr=0.1, nesterov=True)),
    "bf16": Case(GPT2, BF16, more=[(2, ["parallel.zero=3", "train.micro_batch=1"]), (2, ["parallel.tensor=2"])]),
    "bf16_without_masters": Case(LLAMA, BF16, {"amp": {"master_weights": False}}),
    "bf16_state": Case(LLAMA, BF16, optimizer(state_dtype="bf16")),
    "bf16_gradients": Case(LLAMA, BF16, {"amp": {"grad_dtype": "bf16"}}, train(accumulate=2)),
    "fp16": Case(LLAMA, FP16),
    "fp16_static_scale": Case(LLAMA, {"amp": {"dtype": "fp16", "loss_scale": "static", "init_scale": 1024}}),
    "fp8": Case(LLAMA, BF16, {"model": {"width": 16, "ffn_width": 16}, "amp": {"fp8": {"recipe": "current", "skip_ends": 0}}},
                optimizer(name="sgd", momentum=0)),
    "int8": Case(WIDE, optimizer(state_dtype="int8"), more=[(2, ["parallel.zero=1", "train.micro_batch=1"])]),
    # What else an update carries.
    "averages": Case(LLAMA, optimizer(ema=0.9, ema_warmup=True), more=[(1, ["optimizer.ema=0"])]),
    "averages_bf16": Case(LLAMA, BF16, optimizer(ema=0.9), more=[(2, ["parallel.zero=2", "train.micro_batch=1"])]),
    "averages_later": Case(LLAMA, more=[(1, ["optimizer.ema=0.5"])]),
    "clipped_by_last_step": Case(LLAMA, optimizer(clip_by="last_step", clip_grad_norm=0.05, in_backward=True)),
    "skips": Case(LLAMA, {"divergence": {"action": "skip", "spike": 0.01, "window": 2}}, optimizer(lr=1)),
    "best": Case(LLAMA, {"save": {"best": True}}, train(eval_every=1, early_stop=3)),
    "frozen": Case(LLAMA, train(freeze=["embed.*", "block.0.attn.*"])),
    # Places and orders.
    "state_on_host": Case(LLAMA, BF16, optimizer(place="host"), more=[(1, ["optimizer.place=device"])]),
    "all_on_host": Case(FROM_LARGE, BF16, train(accumulate=2, freeze=["head.*"]), optimizer(place="host"),
                        {"memory": {"weights": "host", "gradients": "host"}}, base=LARGE, text=True),
    "async": Case(LLAMA, BF16, {"save": {"async": True}}, optimizer(ema=0.9, place="host")),
    "blocks_first": Case(LLAMA, train(blocks_first=True, accumulate=2), optimizer(in_backward=True, clip_grad_norm=0)),
    # Models.
    "lora": Case(FROM_BASE, {"lora": {"rank": 2, "alpha": 4, "targets": ["q_proj", "v_proj", "mlp.*"], "dropout": 0.1,
                                      "modules_to_save": ["lm_head"]}},
                 base=LLAMA, more=[(2, ["parallel.zero=3", "train.micro_batch=1"])]),
    "bert": Case(BERT, more=[(2, ["parallel.tensor=2"])]),
    "qwen2": Case(QWEN2, more=[(2, ["parallel.tensor=2"])]),
    "vit": Case(VIT, more=[(2, ["parallel.tensor=2"])]),
    "unet": Case({**model("unet", image_height=8, image_width=8, levels=2, features=2, classes=2),
                  "data": {"source": "synthetic_volumes", "volumes": 8, "held_out": 4}}),
    "batch_norm": Case(RESNET, base=RESNET_BASE),
    "batch_norm_groups": Case(RESNET, {"model": {"norm_samples": 2}}, FP16_WITHOUT_OVERFLOW, train(accumulate=2),
                              optimizer(ema=0.9), base=RESNET_BASE),
    "dcgan": Case(DCGAN, FP16),
    "dcgan_averages": Case(DCGAN, optimizer(ema=0.9)),
    "dcgan_spectral": Case(DCGAN, FP16_WITHOUT_OVERFLOW,
                           {"model": {"discriminator_norm": "spectral", "discriminator_updates": 2},
                            "objectives": {"generator": {"optimizer": {"name": "sgd", "lr": 0.01}}}}, optimizer(ema=0.9)),
    "own_states": Case(REMEMBERING, with_states=True),
    # Ranks.
    "zero_1": Case(LLAMA, parallel(zero=1), ranks=2, more=[(1, ["train.micro_batch=4"])]),
    "zero_2": Case(LLAMA, BF16, parallel(zero=2), train(accumulate=2), optimizer(ema=0.9), ranks=2),
    "zero_3": Case(GPT2, BF16, parallel(zero=3), ranks=2,
                   more=[(1, ["train.micro_batch=4"]), (2, ["parallel.zero=0", "parallel.tensor=2", "train.micro_batch=4"])]),
    "zero_3_int8": Case(WIDE, BF16, parallel(zero=3), optimizer(state_dtype="int8"), ranks=2,
                        more=[(1, ["train.micro_batch=4"])]),
    "zero_3_lora": Case(FROM_BASE, {"lora": {"rank": 2, "targets": ["q_proj", "v_proj"]}}, FP16, parallel(zero=3), base=LLAMA,
                        ranks=2),
    "zero_1_on_host": Case(FROM_LARGE, parallel(zero=1), train(freeze=["head.*"]), optimizer(place="host"),
                           {"memory": {"weights": "host"}}, base=LARGE, text=True, ranks=2),
    "tensor": Case(GPT2, BF16, parallel(tensor=2), ranks=2,
                   more=[(1, ["parallel.tensor=1"]), (2, ["parallel.tensor=1", "parallel.zero=3", "train.micro_batch=1"])]),
    "tensor_averages": Case(LLAMA, parallel(tensor=2, sequence=True), optimizer(ema=0.9), ranks=2),
    "tensor_int8": Case(WIDE, model("llama", vocab=2048), parallel(tensor=2), BF16, optimizer(state_dtype="int8"), ranks=2,
                        more=[(1, ["parallel.tensor=1"])]),
    "tensor_lora": Case(FROM_BASE, {"lora": {"rank": 2, "targets": ["q_proj", "o_proj", "mlp.*"]}}, parallel(tensor=2),
                        base=LLAMA, ranks=2, more=[(1, ["parallel.tensor=1"])]),
    "tensor_zero_3": Case(LLAMA, BF16, parallel(tensor=2, data=2, zero=3), ranks=4),
    "batch_norm_ranks": Case(RESNET, base=RESNET_BASE, ranks=2, more=[(1, ["train.micro_batch=4"])]),
    "batch_norm_synced": Case(RESNET, parallel(sync_norm=True, zero=1), base=RESNET_BASE, ranks=2),
    "dcgan_ranks": Case(DCGAN, BF16, parallel(sync_norm=True, zero=3), ranks=2),
    "own_states_ranks": Case(REMEMBERING, ranks=2, with_states=True, more=[(1, ["train.micro_batch=4"])]),
}


def flow(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(entry) for entry in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if re.fullmatch(r"[A-Za-z0-9_./+-]+", text) else json.dumps(text)


def yaml(run):
    return "".join(f"{section}: {flow(keys)}\n" for section, keys in run.items())


CRC_TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    CRC_TABLE.append(byte)


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return "%08x" % (crc ^ 0xFFFFFFFF)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def tensors(snapshot):
    """Of all its tensors, in the order of their names."""
    manifest = json.loads(read(f"{snapshot}/manifest.json"))
    shards = []
    for shard in manifest["shards"]:
        content = read(f"{snapshot}/{shard['file']}")
        data = 8 + int.from_bytes(content[:8], "little")
        shards.append((json.loads(content[8:data]), content[data:]))
    lines = []
    for tensor in manifest["tensors"]:
        content = b""
        for piece in tensor["slices"]:
            header, data = shards[piece["shard"]]
            begin, end = header[tensor["name"]]["data_offsets"]
            content += data[begin:end]
        shape = str(tensor["shape"]).replace(" ", "")
        lines.append(f"{tensor['name']} {tensor['part']}/{tensor['parts']} {tensor['dtype']} {shape} {crc32c(content)}")
    return sorted(lines)


def rows(run):
    with open(f"{run}/metrics.jsonl") as file:
        return [{key: value for key, value in json.loads(line).items() if key not in UNSTEADY} for line in file]


def keep_few(path):
    """Of a checkpoint leaves 128 rows of large matrices, and 2 channels of convolutions. The others are dead: no gradient
    reaches them."""
    content = bytearray(read(path))
    data = 8 + int.from_bytes(content[:8], "little")
    for name, tensor in json.loads(content[8:data]).items():
        if name == "__metadata__" or tensor["dtype"] != "F32":
            continue
        begin, end = (data + offset for offset in tensor["data_offsets"])
        numbers, shape = array.array("f", bytes(content[begin:end])), tensor["shape"]
        if len(shape) == 4:
            pixels = shape[2] * shape[3]
            dead = [i for i in range(len(numbers)) if i // pixels % shape[1] >= 2 or i // pixels // shape[1] >= 2]
        elif name == "fc.weight":
            dead = [i for i in range(len(numbers)) if i % shape[1] >= 2]
        elif len(shape) == 1 and name.endswith((".bias", ".running_mean")) and not name.startswith("fc."):
            dead = range(2, len(numbers))
        elif len(shape) == 2 and shape[0] > 1000:
            dead = range(128 * shape[1], len(numbers))
        else:
            dead = []
        for i in dead:
            numbers[i] = 0
        content[begin:end] = numbers.tobytes()
    with open(path, "wb") as file:
        file.write(content)


def pack(folder, path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for at, folders, files in os.walk(folder):
            folders.sort()
            for file in sorted(files):
                entry = tarfile.TarInfo(os.path.relpath(os.path.join(at, file), folder))
                content = read(os.path.join(at, file))
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    with open(path, "wb") as file:
        file.write(gzip.compress(packed.getvalue(), mtime=0))


class Maker:

    def __init__(self, plimsoll, plimsoll_with_states, mpirun):
        self.plimsoll, self.plimsoll_with_states, self.mpirun = map(os.path.abspath, (plimsoll, plimsoll_with_states, mpirun))

    def call(self, folder, program, ranks, arguments):
        command = [program] + arguments
        if ranks > 1:
            command = [self.mpirun, str(ranks)] + command
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def make(self, name, case, target):
        program = self.plimsoll_with_states if case.with_states else self.plimsoll
        with tempfile.TemporaryDirectory() as work:
            start = f"{work}/start"
            os.mkdir(start)
            with open(f"{start}/run.yaml", "w") as file:
                file.write(yaml(case.run))
            if case.text:
                with open(f"{start}/text", "w") as file:
                    file.writelines(f"One, two, three, four: number {i} is alive.\n%\n" for i in range(20))
            if case.base:
                base = merged(COMMON, case.base, {"train": {"steps": 1, "eval_every": 0}, "save": {"every": 0, "model": True}})
                with open(f"{work}/base.yaml", "w") as file:
                    file.write(yaml(base))
                self.call(work, program, 1, ["train", "base.yaml", "--set", "run.dir=base"])
                shutil.copytree(f"{work}/base/model", f"{start}/base")
                if case.base in (LARGE, RESNET_BASE):
                    keep_few(f"{start}/base/model.safetensors")
            whole = f"{work}/whole"
            shutil.copytree(start, whole)
            self.call(whole, program, case.ranks, ["train", "run.yaml"])
            self.call(start, program, case.ranks, ["train", "run.yaml", "--set", f"train.stop_after={SAVED}"])
            shutil.move(f"{start}/run/snapshots/step-{SAVED:09d}", f"{start}/snapshot")
            shutil.rmtree(f"{start}/run")

            after = {"ranks": case.ranks, "with_states": case.with_states, "exports": {}, "continuations": []}
            for flag in [None, "--ema"] if "ema" in case.run["optimizer"] else [None]:
                self.call(start, program, 1, ["export", "snapshot", "--to", f"{work}/exported", "--overwrite"] +
                          ([flag] if flag else []))
                for file in ("model.safetensors", "adapter_model.safetensors"):
                    if os.path.exists(f"{work}/exported/{file}"):
                        after["exports"][flag or "weights"] = crc32c(read(f"{work}/exported/{file}"))
                shutil.rmtree(f"{work}/exported")
            for number, (ranks, sets) in enumerate(case.continuations):
                folder = f"{work}/{number}"
                shutil.copytree(start, folder)
                arguments = ["train", "run.yaml", "--resume", "snapshot"]
                for entry in sets:
                    arguments += ["--set", entry]
                self.call(folder, program, ranks, arguments)
                after["continuations"].append({
                    "ranks": ranks,
                    "sets": sets,
                    "rows": rows(f"{folder}/run"),
                    "tensors": tensors(f"{folder}/run/snapshots/step-{STEPS:09d}"),
                })
            same, steps = after["continuations"][0], rows(f"{whole}/run")
            if same["rows"] != [row for row in steps if row in same["rows"]] or len(same["rows"]) < STEPS - SAVED:
                print(f"{name}: not the rows of a run without a stop: {same['rows']}\n  {steps}")
            if same["tensors"] != tensors(f"{whole}/run/snapshots/step-{STEPS:09d}"):
                print(f"{name}: not the tensors of a run without a stop")
            os.makedirs(target, exist_ok=True)
            shutil.move(f"{start}/run.yaml", f"{target}/run.yaml")
            pack(start, f"{target}/start.tar.gz")
            with open(f"{target}/after.json", "w") as file:
                json.dump(after, file, indent=0)
                file.write("\n")
        size = sum(os.path.getsize(os.path.join(target, file)) for file in os.listdir(target))
        print(f"{name}: {size} bytes, losses {[row['loss'] for row in same['rows'] if 'loss' in row]}")
        return size


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    maker = Maker(*sys.argv[1:4])
    names = sys.argv[4:] or list(CASES)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "earlier_snapshots")
    print(f"{sum(maker.make(name, CASES[name], os.path.join(folder, name)) for name in names)} bytes in {len(names)} cases")


if __name__ == "__main__":
    main()
