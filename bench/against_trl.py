#!/usr/bin/env python3
"""Fine-tuning on chats, or from pairs of answers: Plimsoll next to TRL with PEFT and transformers, on one GPU.

    pip install torch transformers peft trl
    bazel build --config=cuda //app:plimsoll
    python3 bench/against_trl.py --out runs/trl [--model llama-8b | qwen3-8b | llama-1b] [--only ROW …]
    python3 bench/against_trl.py --pairs --out runs/trl [--model qwen2-1.5b] [--full] [--only ROW …]

Chats (SFTTrainer): both pack whole chats into rows by best-fit decreasing, keep them apart in attention,
count positions from 0 in each, and take the assistant's turns for the loss (--loss-on all: every token), as
the template marks them with {% generation %}.

Pairs (DPOTrainer, DPO with β 0.1): a step of ours has packed rows, with several pairs in each; one of TRL
has as many pairs as have about as many tokens, each text in a row of its own, padded to the longest.

All they read is made from a seed out of --text: a tokenizer, chats or pairs of log-normal lengths, folders
with random weights. TRL runs in a process of its own (bench/trl_peer.py).

1. Losses: a small Qwen3 (--loss-model tiny-llama) in float32, 20 steps from the same adapter of PEFT,
   AdamW, rates that fall linearly to 0, gradients clipped to norm 1. A step is the whole data set, so
   that the order of rows, and which examples share one, change nothing but the order of sums. TRL's batches
   of chats have no attention mask, and transformers then parts the chats where positions begin anew (sdpa).
   Of pairs, the margins of rewards are compared too: they begin at 0. Exit code 1 when a number differs by
   more than --tolerance.
2. Speed and memory: weights in bf16 and adapters of rank 16 on all linear layers, or with --full all
   weights trained in float32, with bf16 arithmetic; --rows rows of --sequence tokens a step. Tokens without
   padding (of a pair those of both texts, so its prompt counts twice) a second over the steps after --warmup
   of them, and the most memory in use on the GPU above what was in use before: leave the GPU to this program.
   Of pairs, also the seconds that the reference's log-probabilities of all pairs take before the first step.

The rows: plimsoll; plimsoll-fp8 (amp.fp8, delayed scales); plimsoll-block (checkpointing.policy: block).
Of chats: trl and trl-checkpoint (gradient_checkpointing) with PyTorch's flash attention between the bounds of
the chats, which is what flash_attention_2 computes and needs no package; trl-sdpa and trl-sdpa-checkpoint
with scaled_dot_product_attention and a mask of all tokens, which is what TRL does by itself where
flash-attn is not installed.
Of pairs: trl (the reference in each step: without the adapter, or with --full by a second model),
trl-precompute (precompute_ref_log_probs) and trl-precompute-checkpoint, with PyTorch's flash attention and no
mask, as no token attends to padding behind it; trl-sdpa-checkpoint, which is what TRL does by itself.

    python3 bench/against_trl.py --device cpu --model tiny-llama --sequence 256 --only plimsoll trl-sdpa
    python3 bench/against_trl.py --pairs --device cpu --model tiny-llama --sequence 256 --mean 40 --steps 4

try all of it on a CPU; memory is then the most that the process had in RAM, and the peer's includes its
earlier rows.

Left in --out: results.json, data, folders and runs. A folder of --folder that is there already is used again.
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
OURS = {
    "plimsoll": {"set": []},
    "plimsoll-fp8": {"set": ["amp.fp8.recipe=delayed"]},
    "plimsoll-block": {"set": ["checkpointing.policy=block"]},
}
OF_CHATS = {
    **OURS,
    "trl": {"attention": "varlen", "checkpointing": False},
    "trl-checkpoint": {"attention": "varlen", "checkpointing": True},
    "trl-sdpa": {"attention": "sdpa", "checkpointing": False},
    "trl-sdpa-checkpoint": {"attention": "sdpa", "checkpointing": True},
}
OF_PAIRS = {
    **OURS,
    "trl": {"attention": "causal", "checkpointing": False, "precompute": False},
    "trl-precompute": {"attention": "causal", "checkpointing": False, "precompute": True},
    "trl-precompute-checkpoint": {"attention": "causal", "checkpointing": True, "precompute": True},
    "trl-sdpa-checkpoint": {"attention": "sdpa", "checkpointing": True, "precompute": False},
}
BETA = 0.1
OPTIMIZER = {"betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01, "clip_grad_norm": 1.0}


# --- Plimsoll ---------------------------------------------------------------------------------------

def run_file(args, part, model, data, lora, train, dtype, run):
    adamw = ", ".join(f"{key}: {value}" for key, value in {"lr": part["lr"], **OPTIMIZER}.items())
    loss_on = "" if args.pairs else f", loss_on: {args.loss_on}"
    return f"""model: {{init_from: {model}, sequence: {part["sequence"]}}}
{f"lora: {lora}" if lora else ""}
data: {{train: {data}, tokenizer: {model}, packing: best_fit{loss_on}}}
{f"preference: {{loss: dpo, beta: {BETA}}}" if args.pairs else ""}
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
    """How many chats or pairs are in how many rows, as the start of a run says."""
    found = re.search(r"([\d,]+) (?:examples?|pairs?) in ([\d,]+) rows?", printed)
    return tuple(int(number.replace(",", "")) for number in found.groups()) if found else (None, None)


def compare_losses(args, peer, small):
    def file(rows):
        micro_batch = max(n for n in range(1, 9) if rows % n == 0)
        return run_file(args, small, args.out / "small", args.out / "small.jsonl", f"{{init_from: {args.out / 'adapter'}}}",
                        f"{{steps: {small['steps']}, micro_batch: {micro_batch}, accumulate: {rows // micro_batch}, "
                        "log_every: 5}", "fp32", args.out / "plimsoll-loss")

    rows = peer.get("rows")  # of chats; TRL packs no pairs
    if rows is None:
        one_step = train(args, "plimsoll-loss", file(1), ["train.steps=1"])
        if "error" in one_step:
            return one_step
        rows = packed(one_step["printed"])[1]
    ours = train(args, "plimsoll-loss", file(rows), [])
    if "error" in ours:
        return {"error": ours["error"]}
    examples, own_rows = packed(ours["printed"])
    if (examples, own_rows) != (peer["examples"], rows):
        return {"error": f"{examples} examples in {own_rows} rows, TRL has {peer['examples']} in {rows}: a step is not the "
                         "whole data set; try another --loss-tokens"}
    first = ours["steps"][0]
    tokens = round(first["tokens_per_s"] * first["step_ms"] / 1e3)
    if tokens != peer["tokens"]:
        return {"error": f"{tokens} tokens without padding a step, TRL has {peer['tokens']}"}
    result = {"examples": examples, "rows": rows, "tokens": peer["tokens"], "targets": peer["targets"]}
    for key, of_step in (("losses", "loss"), ("rewards_margins", "rewards_margins")):
        if key not in peer:
            continue
        mine, trls = [row[of_step] for row in ours["steps"]], peer[key]
        if len(mine) != len(trls):
            return {"error": f"{len(mine)} {key}, TRL has {len(trls)}"}
        gaps = [abs(a - b) for a, b in zip(mine, trls)]
        result[key] = {"plimsoll": mine, "trl": trls, "largest_difference": max(gaps), "first_difference": gaps[0]}
    return result


def time_ours(args, name, large):
    lora = None if args.full else f"{{rank: {large['lora']['rank']}, alpha: {large['lora']['alpha']}, targets: [all-linear]}}"
    text = run_file(args, large, large["folder"], args.out / large["data"], lora,
                    f"{{steps: {large['steps']}, micro_batch: {large['rows']}, log_every: 5}}", "bf16", args.out / name)
    ours = train(args, name, text, OURS[name]["set"])
    if "error" in ours:
        return ours
    steps = ours["steps"][large["warmup"]:]
    seconds = sum(row["step_ms"] for row in steps) / 1e3
    tokens = sum(row["tokens_per_s"] * row["step_ms"] / 1e3 for row in steps)
    reference = re.search(r"started in .* references ([\d.]+)", ours["printed"])
    return {"tokens_per_s": tokens / seconds, "step_ms": seconds * 1e3 / len(steps), "tokens_per_step": tokens / len(steps),
            "losses": [row["loss"] for row in ours["steps"]],
            "reference_seconds": float(reference[1]) if reference else None,
            "packed": packed(ours["printed"]), "process_bytes": ours["bytes"],
            "allocated_bytes": steps[-1].get("arena_bytes")}


# --- The table --------------------------------------------------------------------------------------

def report(results):
    loss, examples = results.get("loss"), results["examples"]
    if loss and "error" in loss:
        print(f"\nlosses: {loss['error']}")
    elif loss:
        print(f"\n{len(loss['losses']['trl'])} steps, each of {loss['examples']} {examples} in {loss['rows']} rows, "
              f"{loss['targets']} targets, float32:")
    for key in ("losses", "rewards_margins"):
        if loss and key in loss:
            mine, trls, gap = (loss[key][name] for name in ("plimsoll", "trl", "largest_difference"))
            print(f"  {key}: Plimsoll {mine[0]:.6f} to {mine[-1]:.6f}, TRL {trls[0]:.6f} to {trls[-1]:.6f}, "
                  f"largest difference {gap:.1e}")
    reference = " reference s |" if examples == "pairs" else ""
    if results["rows"]:
        print(f"\n| {results['model']} | tokens/s | ms a step | tokens a step | arena, tensors GiB | process GiB |{reference}")
        print("|---|---|---|---|---|---|" + ("---|" if reference else ""))
    for name, row in results["rows"].items():
        if "error" in row:
            print(f"| {name} | {row['error']} | | | | |" + (" |" if reference else ""))
            continue
        inner = f"{row['allocated_bytes'] / GIB:.2f}" if row["allocated_bytes"] else "-"
        seconds = "-" if row["reference_seconds"] is None else f"{row['reference_seconds']:.2f}"
        print(f"| {name} | {row['tokens_per_s']:,.0f} | {row['step_ms']:,.1f} | {row['tokens_per_step']:,.0f} | {inner} | "
              f"{row['process_bytes'] / GIB:.2f} |" + (f" {seconds} |" if reference else ""))
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
    parser.add_argument("--pairs", action="store_true", help="of answers, instead of chats")
    parser.add_argument("--full", action="store_true", help="part 2: all weights are trained")
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "docs/architecture.md", help="whose words the data have")
    parser.add_argument("--loss-on", choices=["assistant", "all"], default="assistant", help="of chats")
    parser.add_argument("--loss-model", choices=["tiny-qwen3", "tiny-llama"], default="tiny-qwen3")
    parser.add_argument("--loss-tokens", type=int, default=6000, help="of the data set of part 1, about")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--no-loss", action="store_true", help="part 2 alone")
    parser.add_argument("--model", help="llama-8b (for chats unless given), qwen2-1.5b (for pairs), qwen3-8b, llama-1b, … of "
                                        "configs/models; tiny-llama, tiny-qwen2, tiny-qwen3")
    parser.add_argument("--folder", type=pathlib.Path, help="of its random weights; default: OUT/MODEL")
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--mean", type=int, default=300, help="tokens of a chat, or of a prompt with one answer, on average")
    parser.add_argument("--only", nargs="*", metavar="ROW",
                        help=f"of chats {', '.join(OF_CHATS)}; of pairs {', '.join(OF_PAIRS)}; without a name: part 1 alone")
    parser.add_argument("--set", action="append", default=[], help="key=value for our run files")
    args = parser.parse_args()
    known = OF_PAIRS if args.pairs else OF_CHATS
    args.only = list(known) if args.only is None else args.only
    args.model = args.model or ("qwen2-1.5b" if args.pairs else "llama-8b")
    for name in args.only:
        if name not in known:
            parser.error(f"--only {name}: the rows are {', '.join(known)}")
    if not 0 < args.warmup < args.steps:
        parser.error(f"--warmup {args.warmup}: give a number from 1 to --steps, {args.steps}, less 1")
    if shutil.which(args.binary) is None:
        parser.error(f"--binary {args.binary}: there is no such program; build //app:plimsoll")
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    large = {"model": args.model, "folder": str((args.folder or args.out / args.model).resolve()), "vocab": 4096,
             "sequence": args.sequence, "rows": args.rows, "steps": args.steps, "warmup": args.warmup, "mean": args.mean,
             "data": "pairs.jsonl" if args.pairs else "chats.jsonl",
             "batch": max(1, round(args.rows * args.sequence / (2 * args.mean))) if args.pairs else args.rows,
             "full": args.full, "lr": 1e-5 if args.full else 2e-4, "lora": {"rank": 16, "alpha": 32}}
    small = {"model": args.loss_model, "vocab": 1024, "sequence": 256, "steps": 20, "mean": 60, "tokens": args.loss_tokens,
             "std": 0.1, "lr": 1e-3 if args.pairs else 1e-2, "lora": {"rank": 8, "alpha": 16}}
    args.base = budget_sweep.Nvml().memory().used if args.device != "cpu" else None
    start = time.perf_counter()
    peer = run_peer(args, {
        "device": args.device, "base": args.base, "text": str(args.text.resolve()), "loss_on": args.loss_on,
        "pairs": args.pairs, "beta": BETA, **OPTIMIZER,
        "loss": None if args.no_loss else small, "speed": large if args.only else None,
        "rows": {name: known[name] for name in args.only if name not in OURS}})
    results = {"versions": peer["versions"], "examples": "pairs" if args.pairs else "chats", "model": args.model,
               "settings": large, "seconds": peer["seconds"], "rows": {}}

    def keep():
        (args.out / "results.json").write_text(json.dumps(results, indent=1))

    if not args.no_loss:
        results["loss"] = compare_losses(args, peer["loss"], small)
        keep()
    for name in args.only:
        begin = time.perf_counter()
        results["rows"][name] = time_ours(args, name, large) if name in OURS else peer["rows"][name]
        if name in OURS:
            results["seconds"][name] = time.perf_counter() - begin
            print(f"Plimsoll: {name}: {results['seconds'][name]:.1f} s", flush=True)
        keep()
    results["seconds"]["all"] = time.perf_counter() - start
    keep()
    report(results)
    print(f"\n{', '.join(f'{name} {version}' for name, version in peer['versions'].items())}; {results['seconds']['all']:.0f} s")
    loss = results.get("loss", {})
    if "error" in loss or any(loss[key]["largest_difference"] > args.tolerance
                              for key in ("losses", "rewards_margins") if key in loss):
        sys.exit(1)


if __name__ == "__main__":
    main()
