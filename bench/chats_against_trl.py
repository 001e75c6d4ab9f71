#!/usr/bin/env python3
"""Fine-tuning on chats: Plimsoll next to TRL's SFTTrainer with PEFT and transformers, on one GPU.

    pip install torch transformers peft trl
    bazel build --config=cuda //app:plimsoll
    python3 bench/chats_against_trl.py --out runs/trl [--model llama-8b | qwen3-8b | llama-1b] [--only ROW …]

Both pack whole chats into rows by best-fit decreasing, keep them apart in attention, count positions
from 0 in each, and take the assistant's turns for the loss (--loss-on all: every token), as the
template marks them with {% generation %}. All they read is made from a seed out of --text: a tokenizer,
chats of log-normal lengths, folders with random weights. TRL runs in a process of its own
(bench/trl_peer.py).

1. Losses: a small Qwen3 (--loss-model tiny-llama) in float32, 20 steps from the same adapter of PEFT,
   AdamW, rates that fall linearly to 0, gradients clipped to norm 1. A step is the whole data set, so
   that the order of rows, and which chats share one, change nothing but the order of sums. TRL's batches
   have no attention mask, and transformers then parts the chats where positions begin anew (sdpa).
   Exit code 1 when a loss differs by more than --tolerance.
2. Speed and memory: weights in bf16 and adapters of rank 16 on all linear layers, --rows rows of
   --sequence tokens a step. Tokens without padding a second over the steps after --warmup of them, and the
   most memory in use on the GPU above what was in use before: leave the GPU to this program.

The rows: plimsoll; plimsoll-fp8 (amp.fp8, delayed scales); plimsoll-block (checkpointing.policy: block);
trl and trl-checkpoint (gradient_checkpointing) with PyTorch's flash attention between the bounds of the
chats, which is what flash_attention_2 computes and needs no package; trl-sdpa and trl-sdpa-checkpoint
with scaled_dot_product_attention and a mask of all tokens, which is what TRL does by itself where
flash-attn is not installed.

    python3 bench/chats_against_trl.py --device cpu --model tiny-llama --sequence 256 --only plimsoll trl-sdpa

tries all of it on a CPU; memory is then the most that the process had in RAM, and the peer's includes its
earlier rows.

Left in --out: results.json, chats, folders and runs. A folder of --folder that is there already is used again.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

import budget_sweep

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 1 << 30
ROWS = {
    "plimsoll": {"set": []},
    "plimsoll-fp8": {"set": ["amp.fp8.recipe=delayed"]},
    "plimsoll-block": {"set": ["checkpointing.policy=block"]},
    "trl": {"attention": "varlen", "checkpointing": False},
    "trl-checkpoint": {"attention": "varlen", "checkpointing": True},
    "trl-sdpa": {"attention": "sdpa", "checkpointing": False},
    "trl-sdpa-checkpoint": {"attention": "sdpa", "checkpointing": True},
}
OPTIMIZER = {"betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01, "clip_grad_norm": 1.0}


# --- Plimsoll ---------------------------------------------------------------------------------------

def run_file(args, part, model, chats, lora, train, dtype, run):
    adamw = ", ".join(f"{key}: {value}" for key, value in {"lr": part["lr"], **OPTIMIZER}.items())
    return f"""model: {{init_from: {model}, sequence: {part["sequence"]}}}
lora: {lora}
data: {{train: {chats}, tokenizer: {model}, packing: best_fit, loss_on: {args.loss_on}}}
train: {train}
optimizer: {{{adamw}}}
schedule: {{name: linear, warmup: 0, min_lr: 0}}
amp: {{dtype: {dtype}}}
device: {args.device}
memory: {{calibrate: false}}
save: {{model: false}}
run: {{dir: {run}, overwrite: true}}
"""


class Used:
    """The most memory in use on the GPU above `base`."""

    def __init__(self, base):
        self._nvml, self._base, self.most, self._end = budget_sweep.Nvml(), base, 0, threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self):
        while not self._end.wait(0.005):
            self.most = max(self.most, self._nvml.memory().used - self._base)

    def stop(self):
        self._end.set()
        self._thread.join()
        return self.most


def train(args, name, text, settings):
    """Rows of metrics.jsonl, what was printed, and the most bytes; or what went wrong."""
    file = args.out / f"{name}.yaml"
    file.write_text(text)
    command = [args.binary, "train", str(file)]
    for setting in [*settings, *args.set]:
        command += ["--set", setting]
    used = Used(args.base) if args.base is not None else None
    with open(args.out / f"{name}.log", "w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        bytes_used = used.stop() if used else usage.ru_maxrss << 10
        log.seek(0)
        printed = log.read()
    if process.returncode != 0:
        lines = [line for line in printed.splitlines() if "error" in line] or printed.splitlines() or ["failed"]
        return {"error": lines[-1]}
    rows = [json.loads(line) for line in (args.out / name / "metrics.jsonl").read_text().splitlines()]
    return {"steps": [row for row in rows if "step_ms" in row], "printed": printed, "bytes": bytes_used}


def packed(printed):
    """How many chats are in how many rows, as the start of a run says."""
    found = re.search(r"([\d,]+) examples? in ([\d,]+) rows?", printed)
    return tuple(int(number.replace(",", "")) for number in found.groups()) if found else (None, None)


def compare_losses(args, peer, small):
    rows = peer["rows"]
    text = run_file(args, small, args.out / "small", args.out / "small.jsonl",
                    f"{{init_from: {args.out / 'adapter'}}}",
                    f"{{steps: {small['steps']}, micro_batch: {peer['micro_batch']}, accumulate: "
                    f"{rows // peer['micro_batch']}, log_every: 5}}", "fp32",
                    args.out / "plimsoll-loss")
    ours = train(args, "plimsoll-loss", text, [])
    if "error" in ours:
        return {"error": ours["error"]}
    chats, own_rows = packed(ours["printed"])
    if (chats, own_rows) != (peer["chats"], rows):
        return {"error": f"{chats} chats in {own_rows} rows, TRL has {peer['chats']} in {rows}: a step is not the whole "
                         "data set; try another --loss-tokens"}
    losses = [row["loss"] for row in ours["steps"]]
    if len(losses) != len(peer["losses"]):
        return {"error": f"{len(losses)} losses, TRL has {len(peer['losses'])}"}
    gaps = [abs(a - b) for a, b in zip(losses, peer["losses"])]
    return {"plimsoll": losses, "trl": peer["losses"], "chats": chats, "rows": rows, "tokens": peer["tokens"],
            "targets": peer["labels"], "largest_difference": max(gaps), "first_difference": gaps[0]}


def time_ours(args, name, large):
    text = run_file(args, large, large["folder"], args.out / "chats.jsonl",
                    f"{{rank: {large['lora']['rank']}, alpha: {large['lora']['alpha']}, targets: [all-linear]}}",
                    f"{{steps: {large['steps']}, micro_batch: {large['rows']}, log_every: 5}}", "bf16", args.out / name)
    ours = train(args, name, text, ROWS[name]["set"])
    if "error" in ours:
        return ours
    steps = ours["steps"][large["warmup"]:]
    seconds = sum(row["step_ms"] for row in steps) / 1e3
    tokens = sum(row["tokens_per_s"] * row["step_ms"] / 1e3 for row in steps)
    return {"tokens_per_s": tokens / seconds, "step_ms": seconds * 1e3 / len(steps), "tokens_per_step": tokens / len(steps),
            "losses": [row["loss"] for row in ours["steps"]],
            "packed": packed(ours["printed"]), "process_bytes": ours["bytes"],
            "allocated_bytes": steps[-1].get("arena_bytes")}


# --- The table --------------------------------------------------------------------------------------

def report(results):
    loss = results.get("loss")
    if loss and "error" in loss:
        print(f"\nlosses: {loss['error']}")
    elif loss:
        print(f"\nlosses of {len(loss['trl'])} steps, each of {loss['chats']} chats in {loss['rows']} rows, {loss['targets']} "
              f"targets, float32:\n  Plimsoll {loss['plimsoll'][0]:.6f} to {loss['plimsoll'][-1]:.6f}, TRL "
              f"{loss['trl'][0]:.6f} to {loss['trl'][-1]:.6f}, largest difference {loss['largest_difference']:.1e}")
    if results["rows"]:
        print(f"\n| {results['model']} | tokens/s | ms a step | tokens a step | arena, tensors GiB | process GiB |")
        print("|---|---|---|---|---|---|")
    for name, row in results["rows"].items():
        if "error" in row:
            print(f"| {name} | {row['error']} | | | | |")
            continue
        inner = f"{row['allocated_bytes'] / GIB:.2f}" if row["allocated_bytes"] else "-"
        print(f"| {name} | {row['tokens_per_s']:,.0f} | {row['step_ms']:,.1f} | {row['tokens_per_step']:,.0f} | {inner} | "
              f"{row['process_bytes'] / GIB:.2f} |")
    sys.stdout.flush()


def run_peer(args, task):
    (args.out / "task.json").write_text(json.dumps(task, indent=1))
    (args.out / "peer.json").unlink(missing_ok=True)
    with open(args.out / "peer.log", "w") as log:
        done = subprocess.run([sys.executable, str(ROOT / "bench/trl_peer.py"), str(args.out)], stderr=log)
    if done.returncode != 0:
        sys.exit(f"TRL's process ended with {done.returncode}:\n" +
                 "\n".join((args.out / "peer.log").read_text().splitlines()[-15:]))
    return json.loads((args.out / "peer.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs/trl")
    parser.add_argument("--binary", default=str(ROOT / "bazel-bin/app/plimsoll"))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "docs/architecture.md", help="whose words chats have")
    parser.add_argument("--loss-on", choices=["assistant", "all"], default="assistant")
    parser.add_argument("--loss-model", choices=["tiny-qwen3", "tiny-llama"], default="tiny-qwen3")
    parser.add_argument("--loss-tokens", type=int, default=6000, help="of the data set of part 1, about")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--no-loss", action="store_true", help="part 2 alone")
    parser.add_argument("--model", default="llama-8b", help="llama-8b, qwen3-8b, llama-1b, … of configs/models; tiny-llama")
    parser.add_argument("--folder", type=pathlib.Path, help="of its random weights; default: OUT/MODEL")
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--mean", type=int, default=300, help="tokens of a chat on average")
    parser.add_argument("--only", nargs="*", choices=list(ROWS), default=list(ROWS), metavar="ROW",
                        help=f"of {', '.join(ROWS)}; without a name: part 1 alone")
    parser.add_argument("--set", action="append", default=[], help="key=value for our run files")
    args = parser.parse_args()
    if not 0 < args.warmup < args.steps:
        parser.error(f"--warmup {args.warmup}: give a number from 1 to --steps, {args.steps}, less 1")
    if shutil.which(args.binary) is None:
        parser.error(f"--binary {args.binary}: there is no such program; build //app:plimsoll")
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    large = {"model": args.model, "folder": str((args.folder or args.out / args.model).resolve()), "vocab": 4096,
             "sequence": args.sequence, "rows": args.rows, "steps": args.steps, "warmup": args.warmup, "mean": args.mean,
             "lr": 2e-4, "lora": {"rank": 16, "alpha": 32}}
    small = {"model": args.loss_model, "vocab": 1024, "sequence": 256, "steps": 20, "mean": 60, "tokens": args.loss_tokens,
             "std": 0.1, "lr": 1e-2, "lora": {"rank": 8, "alpha": 16}}
    args.base = budget_sweep.Nvml().memory().used if args.device != "cpu" else None
    start = time.perf_counter()
    peer = run_peer(args, {
        "device": args.device, "base": args.base, "text": str(args.text.resolve()), "loss_on": args.loss_on, **OPTIMIZER,
        "loss": None if args.no_loss else small, "speed": large if args.only else None,
        "rows": {name: ROWS[name] for name in args.only if "attention" in ROWS[name]}})
    results = {"versions": peer["versions"], "model": args.model, "settings": large, "seconds": peer["seconds"], "rows": {}}

    def keep():
        (args.out / "results.json").write_text(json.dumps(results, indent=1))

    if not args.no_loss:
        results["loss"] = compare_losses(args, peer["loss"], small)
        keep()
    for name in args.only:
        begin = time.perf_counter()
        results["rows"][name] = time_ours(args, name, large) if "set" in ROWS[name] else peer["rows"][name]
        if "set" in ROWS[name]:
            results["seconds"][name] = time.perf_counter() - begin
            print(f"Plimsoll: {name}: {results['seconds'][name]:.1f} s", flush=True)
        keep()
    results["seconds"]["all"] = time.perf_counter() - start
    keep()
    report(results)
    print(f"\n{', '.join(f'{name} {version}' for name, version in peer['versions'].items())}; {results['seconds']['all']:.0f} s")
    loss = results.get("loss", {})
    if "error" in loss or loss.get("largest_difference", 0) > args.tolerance:
        sys.exit(1)


if __name__ == "__main__":
    main()
