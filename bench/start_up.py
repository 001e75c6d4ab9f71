#!/usr/bin/env python3
"""How long does a run take from the command to the end of its first step?

    bazel build --config=cuda //app:plimsoll //bench:cuda_start_floor
    python3 bench/start_up.py [ROW …] [--repeat 3] [--dir FOLDER] [--json FILE]
    python3 bench/start_up.py --checkpoint FOLDER [--model configs/models/llama-8b.yaml]

The first start has an empty cache: it times ops and chooses algorithms. Later ones take turns with
cuda_start_floor, a process that makes a context, loads cuBLASLt and cuDNN, and pins as many bytes
as the run's plan has on the host. Printed are medians: the floor; the first step by itself; the
second start and the bound set for it, a function of floor and step; the first start, for which the
bound is twice the second; the header, which on a CPU alone has a bound; and the longest time in which
nothing was said. A row with a bound that is not kept is marked.

Rows that start from a checkpoint write one of the model's shapes, in shards of 5 GB as transformers
does, to a folder below --dir, which should be on a fast disk (or use that of --checkpoint, which
writes one and ends). They are compared with a parallel read of these files into pinned memory,
warm, and cold: the system is asked to forget the files before each reading.

The end of the first step is the line "started in …", or else the first one of a step. Runs, caches and
checkpoints are removed at the end.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARD = 5_000_000_000
SETS = ["train.steps=1", "train.log_every=1", "train.eval_every=0", "train.sample_every=0", "save.every=0",
        "save.on_exit=false", "save.model=false", "log.report=false"]

# `more` seconds, or `times` as much, is what a second start may take beyond floor and first step.
# `checkpoint`: starts from one of that model, whose parallel reading may take `times` as long.
# `header`: a run on the CPU, of which only the seconds until its first line count.
ROWS = {
    "quickstart-cpu": {"config": "configs/quickstart.yaml", "sets": ["device=cpu"], "header": 0.2},
    "gpt2-124m": {"config": "configs/bench/gpt2-124m.yaml", "more": 0.8},
    "gpt2-1558m": {"config": "configs/bench/gpt2-1558m.yaml", "more": 1.5},
    "qwen2.5-7b": {"config": "configs/bench/qwen2.5-7b.yaml", "times": 1.3},
    "llama-8b-8gib": {"config": "configs/bench/llama-8b-8gib.yaml", "times": 1.3},
    "llama-8b-lora": {"checkpoint": "configs/models/llama-8b.yaml", "times": 1.2,
                      "run": {"model": {"sequence": 2048}, "device": "cuda", "data": {"synthetic": True},
                              "amp": {"dtype": "bf16"}, "checkpointing": {"policy": "block"},
                              "lora": {"rank": 16, "alpha": 32, "targets": ["all-linear"]},
                              "train": {"micro_batch": 1}}},
}


def target(row, floor, step, read=0.0):
    """The most seconds that a second start may take; None: any."""
    if "header" in row:
        return None
    if "checkpoint" in row:
        return floor + step + row["times"] * read
    return row.get("times", 1) * (floor + step) + row.get("more", 0)


def model_of(text):
    """The sizes of a file like configs/models/llama-8b.yaml: `key: value` below `model:`."""
    body = re.search(r"^model:\n((?:  .*\n)+)", text, re.MULTILINE)[1]
    found = dict(re.findall(r"^  (\w+): ([^\s#]+)", body, re.MULTILINE))
    return {key: value if key == "family" else json.loads(value) for key, value in found.items()}


def tensors_of(model):
    """Names and shapes of a Llama in transformers' form, in the order of its files."""
    width, ffn, vocab = model["width"], model["ffn_width"], model["vocab"]
    keys = width // model["heads"] * model["kv_heads"]
    yield "model.embed_tokens.weight", (vocab, width)
    for layer in range(model["layers"]):
        block = f"model.layers.{layer}."
        yield block + "input_layernorm.weight", (width,)
        for name, rows in (("q", width), ("k", keys), ("v", keys), ("o", width)):
            yield f"{block}self_attn.{name}_proj.weight", (rows, width)
        yield block + "post_attention_layernorm.weight", (width,)
        for name, shape in (("gate", (ffn, width)), ("up", (ffn, width)), ("down", (width, ffn))):
            yield f"{block}mlp.{name}_proj.weight", shape
    yield "model.norm.weight", (width,)
    if not model["tied"]:
        yield "lm_head.weight", (vocab, width)


def size_of(shape):
    """Bytes in bf16."""
    count = 2
    for extent in shape:
        count *= extent
    return count


def shards_of(tensors, most):
    """Lists of tensors, none of more than so many bytes unless one tensor is."""
    shards, held = [[]], 0
    for name, shape in tensors:
        if shards[-1] and held + size_of(shape) > most:
            shards.append([])
            held = 0
        shards[-1].append((name, shape))
        held += size_of(shape)
    return shards


def random_bf16(count):
    """So many numbers of random signs and fractions, in ±[2⁻⁷, 2⁻⁵)."""
    block = bytearray(2 * count)
    block[0::2] = os.urandom(count)
    block[1::2] = os.urandom(count).translate(bytes(0xBC if byte & 1 else 0x3C for byte in range(256)))
    return bytes(block)


def write_checkpoint(folder, model, shard=SHARD):
    """A Llama with weights that are plausible numbers; returns its files."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    block = random_bf16(1 << 25)
    ones = struct.pack("<H", 0x3F80)
    shards = shards_of(tensors_of(model), shard)
    files, weight_map, at = [], {}, 0
    for number, tensors in enumerate(shards, 1):
        path = folder / f"model-{number:05}-of-{len(shards):05}.safetensors"
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for name, shape in tensors:
            header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size_of(shape)]}
            offset += size_of(shape)
            weight_map[name] = path.name
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, shape in tensors:
                left = size_of(shape)
                if len(shape) == 1:
                    file.write(ones * (left // 2))
                    continue
                while left > 0:
                    at = (at + 2 * 9973) % len(block)
                    left -= file.write(block[at:at + left])
            file.flush()
            os.fsync(file.fileno())  # only what is on the disk can be forgotten
        files.append(str(path))
    total = sum(size_of(shape) for _, shape in tensors_of(model))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "torch_dtype": "bfloat16",
        "hidden_size": model["width"], "intermediate_size": model["ffn_width"], "vocab_size": model["vocab"],
        "num_hidden_layers": model["layers"], "num_attention_heads": model["heads"],
        "num_key_value_heads": model["kv_heads"], "max_position_embeddings": model["max_sequence"],
        "rms_norm_eps": model["norm_eps"], "rope_theta": model["rope_theta"],
        "tie_word_embeddings": model["tied"]}, indent=2))
    return files


def forget(files):
    for name in files:
        with open(name, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_lines(lines, start, clock=time.monotonic):
    """What the lines of a run's output, each taken when it arrives, say of its start."""
    said, last = [start], []
    found = {"header_s": None, "first_step_s": None, "own_line": None}
    for line in lines:
        now = clock()
        if found["header_s"] is None and line.startswith("plimsoll "):
            found["header_s"] = now - start
        if found["own_line"] is None:
            said.append(now)
        last = [*last[-9:], line]
        own = line.startswith("started in ")
        if own:
            found["own_line"] = line.strip()
        if own or (found["first_step_s"] is None and re.match(r"step +\d+/", line)):
            found["first_step_s"] = now - start
    silences = [(b - a, a - start) for a, b in zip(said, said[1:]) if b - start <= (found["first_step_s"] or 0)]
    found["silence_s"], found["silence_at_s"] = max(silences, default=(None, None))
    found["last_lines"] = "".join(last)
    return found


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = pathlib.Path(folder)
        self.runs = 0

    def start(self, config, cache, sets=()):
        """One start; its figures, with the first step's time and the plan's bytes on the host."""
        self.runs += 1
        run = self.folder / f"run-{self.runs}"
        command = [self.arguments.plimsoll, "train", str(config)]
        for each in [*SETS, *sets, *self.arguments.set, f"run.dir={run}"]:
            command += ["--set", each]
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        start = time.monotonic()
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as process:
            figures = read_lines(process.stdout, start)
        if process.returncode != 0 or figures["first_step_s"] is None:
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}\n{figures['last_lines']}")
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        figures["step_s"] = next(row["step_ms"] for row in rows if "step_ms" in row) / 1e3
        figures["host_bytes"] = json.loads((run / "plan.json").read_text())["host_arena_bytes"]
        return figures

    def floor(self, *options):
        command = [self.arguments.floor, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        return json.loads(done.stdout)

    def checkpoint(self, row):
        if self.arguments.checkpoint_folder:
            folder = pathlib.Path(self.arguments.checkpoint_folder)
            files = sorted(str(path) for path in folder.glob("*.safetensors"))
        else:
            folder = self.folder / "checkpoint"
            model = model_of((ROOT / row["checkpoint"]).read_text())
            files = sorted(str(path) for path in folder.glob("*.safetensors")) or write_checkpoint(folder, model)
        if not files:
            raise SystemExit(f"{folder}: no .safetensors there")
        config = self.folder / "from_checkpoint.json"  # JSON is YAML, too
        config.write_text(json.dumps({**row["run"], "model": {**row["run"]["model"], "init_from": str(folder)}}))
        return config, files

    def measure(self, name):
        row = ROWS[name]
        config, files = self.checkpoint(row) if "checkpoint" in row else (row["config"], [])
        with tempfile.TemporaryDirectory(dir=self.folder) as cache:
            sets = row.get("sets", [])
            first = self.start(config, cache, sets)
            results = []
            for way in ("cold", "warm") if files else ("",):
                floors, starts, reads = [], [], []
                for _ in range(self.arguments.repeat):
                    on_gpu = "header" not in row
                    floors.append(self.floor("--bytes", str(first["host_bytes"]))["start_ms"] / 1e3 if on_gpu else 0.0)
                    if files:
                        if way == "cold":
                            forget(files)
                        reads.append(self.floor("--read", *files)["read_ms"] / 1e3)
                    if way == "cold":
                        forget(files)
                    starts.append(self.start(config, cache, sets))
                results.append(summary(row, f"{name} {way}".strip(), first, floors, starts, reads))
        return results


def summary(row, name, first, floors, starts, reads):
    def median(key):
        return statistics.median(start[key] for start in starts)

    floor, step, second = statistics.median(floors), median("step_s"), median("first_step_s")
    read = statistics.median(reads) if reads else 0.0
    bound, header = target(row, floor, step, read), median("header_s")
    kept = header <= row["header"] if bound is None else second <= bound and first["first_step_s"] <= 2 * second
    return {"name": name, "host_bytes": first["host_bytes"], "floor_s": floor, "read_s": read, "step_s": step,
            "second_s": second, "seconds_s": [start["first_step_s"] for start in starts], "target_s": bound,
            "first_s": first["first_step_s"], "first_target_s": 2 * second, "header_s": header,
            "silence_s": median("silence_s"),
            "silence_at_s": starts[-1]["silence_at_s"], "own_line": starts[-1]["own_line"],
            "kept": kept}


def table(results):
    lines = [f"{'seconds':<20}{'pinned GiB':>11}{'floor':>8}{'read':>8}{'step':>8}{'second':>8}{'bound':>8}"
             f"{'ratio':>7}{'first':>8}{'/second':>8}{'header':>8}{'silent':>8}"]
    for r in results:
        bound, ratio = "", ""
        if r["target_s"] is not None:
            bound, ratio = f"{r['target_s']:.2f}", f"{r['second_s'] / r['target_s']:.2f}"
        lines.append(
            f"{r['name']:<20}{r['host_bytes'] / (1 << 30):>11.2f}{r['floor_s']:>8.2f}{r['read_s']:>8.2f}"
            f"{r['step_s']:>8.2f}{r['second_s']:>8.2f}{bound:>8}{ratio:>7}"
            f"{r['first_s']:>8.2f}{r['first_s'] / r['second_s']:>8.2f}{r['header_s']:>8.2f}{r['silence_s']:>8.2f}"
            f"{'' if r['kept'] else '  too long'}")
        if r["own_line"]:
            lines.append(f"    {r['own_line']}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; default: all")
    parser.add_argument("--repeat", type=int, default=3, help="second starts and floors, in turns")
    parser.add_argument("--set", action="append", default=[], help="key=value for all run files")
    parser.add_argument("--plimsoll", default=str(ROOT / "bazel-bin/app/plimsoll"))
    parser.add_argument("--floor", default=str(ROOT / "bazel-bin/bench/cuda_start_floor"))
    parser.add_argument("--dir", help="where runs, caches and checkpoints are written for the time; default: TMPDIR")
    parser.add_argument("--checkpoint-folder", help="a checkpoint to start from, in place of one that is written")
    parser.add_argument("--checkpoint", metavar="FOLDER", help="only write a checkpoint there")
    parser.add_argument("--model", default="configs/models/llama-8b.yaml", help="whose shapes --checkpoint has")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    if arguments.checkpoint:
        print("\n".join(write_checkpoint(arguments.checkpoint, model_of((ROOT / arguments.model).read_text()))))
        return
    names = arguments.rows or list(ROWS)
    for name in names:
        if name not in ROWS:
            sys.exit(f"{name}: no such row; there are {', '.join(ROWS)}")
    results = []
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        bench = Bench(arguments, folder)
        for name in names:
            found = bench.measure(name)
            results += found
            print(table(found), flush=True)
    if len(names) > 1:
        print(f"\n{table(results)}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1))
    sys.exit(0 if all(result["kept"] for result in results) else 1)


if __name__ == "__main__":
    main()
