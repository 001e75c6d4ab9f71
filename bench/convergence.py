#!/usr/bin/env python3
"""GPT-2 124M from scratch on real text: Plimsoll's loss curve beside PyTorch's, on one GPU in bf16.

    pip install torch safetensors matplotlib
    bazel build --config=cuda //trainer:plimsoll
    plimsoll data tokenize novels.txt --tokenizer GPT2_FOLDER --out tokens
    python3 bench/convergence.py tokens/train_000000.bin --out runs/convergence

PyTorch (torch.compile, bf16 autocast, fused AdamW) trains from several seeds of the initial weights;
Plimsoll trains from the weights of the first. All read the same consecutive windows of the same
token file (little-endian uint16, no header) in the same order, each token once, with the same
schedule. What the seeds differ by is the noise that the distance between Plimsoll and PyTorch is
compared with. --again trains the first seed with PyTorch once more, uncompiled: same weights, same
data, other kernels.

--accumulate N goes through a batch in N micro-steps. --grad-bf16 trains the first seed twice more, with
gradients that micro-steps carry in bf16: Plimsoll with amp.grad_dtype, whose sums round
stochastically, and PyTorch with sums that round to the nearest, as those of bf16 parameters do.

Left in --out: losses.json (every curve and the comparison), convergence.svg, the run directory.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
VOCAB = 50304
LR, MIN_LR, WARMUP = 6e-4, 6e-5, 100
SMOOTH = 20  # number of steps that each plotted and compared point averages


def learning_rate(step, steps):
    """As Plimsoll's schedule `cosine` has it."""
    if step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    return MIN_LR + (LR - MIN_LR) * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP)))


# --- PyTorch, in a process of its own ---------------------------------------------------------------

def save_for_hub(model, folder, heads, positions):
    import torch
    from safetensors.torch import save_file
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: (p.detach().t() if transposed else p.detach()).float().contiguous().cpu()
               for name, (p, transposed) in model.hub_tensors().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": VOCAB,
        "n_positions": positions, "n_embd": model.wte.weight.shape[1],
        "n_layer": len(model.blocks), "n_head": heads, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        "tie_word_embeddings": True, "torch_dtype": "float32"}, indent=1))


def train_pytorch(args):
    import numpy
    import torch
    import peer_models

    torch.set_float32_matmul_precision("high")
    layers, width, heads = peer_models.GPT2[args.model]
    window = args.batch * args.sequence
    tokens = torch.from_numpy(numpy.fromfile(args.tokens, dtype="<u2").astype("int32"))
    tokens = tokens[: args.steps * window + 1].to(args.device)
    result = {"version": torch.__version__, "curves": {}, "seconds": {}}

    def fresh(seed):
        torch.manual_seed(seed)
        with torch.device(args.device):
            return peer_models.Gpt2(layers, width, heads, VOCAB, args.positions)

    model = fresh(1)
    save_for_hub(model, args.out / "initial", heads, args.positions)
    print("saved", flush=True)
    compiled = torch.compile(model)
    jobs = [(seed, compiled, False) for seed in range(1, args.seeds + 1)]
    if args.again:
        jobs.append((1, model, False))
    if args.grad_bf16:
        jobs.append((1, compiled, True))
    rows = args.batch // args.accumulate
    for seed, forward, low in jobs:
        model.load_state_dict(fresh(seed).state_dict())
        optimizer = peer_models.optimizer_for(model, LR)
        losses = []
        carried = {}  # gradients of matrices in bf16
        start = time.perf_counter()
        for step in range(args.steps):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, args.steps)
            at = step * window
            x = tokens[at: at + window].view(args.batch, args.sequence).long()
            y = tokens[at + 1: at + 1 + window].view(args.batch, args.sequence).long()
            total = 0
            for first in range(0, args.batch, rows):
                with torch.autocast(args.device, dtype=torch.bfloat16):
                    loss = forward(x[first: first + rows], y[first: first + rows]) / args.accumulate
                loss.backward()
                total = total + loss.detach()
                if low:
                    for p in model.parameters():
                        if p.dim() > 1:
                            carried[p] = p.grad.bfloat16() + carried.pop(p, 0)
                            p.grad = None
            for p, gradient in carried.items():
                p.grad = gradient.float()
            carried.clear()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(total)
        name = (f"PyTorch, seed {seed}" + ("" if forward is compiled else ", uncompiled")
                + (", gradients in bf16" if low else ""))
        result["curves"][name] = torch.stack(losses).float().tolist()
        result["seconds"][name] = time.perf_counter() - start
        print(name, result["curves"][name][-1], flush=True)
        (args.out / "pytorch.json").write_text(json.dumps(result))


# --- Plimsoll ---------------------------------------------------------------------------------------

def train_plimsoll(args, settings=()):
    run = args.out / "run"
    file = args.out / "run.yaml"
    file.write_text(f"""model: {{init_from: {args.out}/initial, sequence: {args.sequence}}}
data: {{train: {args.tokens}, order: consecutive, format: uint16}}
train: {{steps: {args.steps}, micro_batch: {args.batch // args.accumulate}, accumulate: {args.accumulate}}}
optimizer: {{lr: {LR}, betas: [0.9, 0.95], weight_decay: 0.1, clip_grad_norm: 1}}
schedule: {{name: cosine, warmup: {WARMUP}, min_lr: {MIN_LR}}}
amp: {{dtype: bf16}}
run: {{dir: {run}, overwrite: true}}
""")
    start = time.perf_counter()
    command = [args.binary, "train", str(file)]
    for setting in ["train.log_every=100", "train.eval_every=0", *settings, *args.set]:
        command += ["--set", setting]
    subprocess.run(command, check=True)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row], time.perf_counter() - start


# --- Comparison -------------------------------------------------------------------------------------

def smoothed(curve):
    return [sum(curve[max(0, i - SMOOTH + 1): i + 1]) / min(SMOOTH, i + 1) for i in range(len(curve))]


def distance(a, b, first):
    """Mean and largest difference of two smoothed curves from step `first` on."""
    gaps = [abs(x - y) for x, y in zip(smoothed(a)[first:], smoothed(b)[first:])]
    return sum(gaps) / len(gaps), max(gaps)


def compare(ours, curves):
    """`ours` and `curves`: Plimsoll's and PyTorch's, by name."""
    first = min(WARMUP, len(next(iter(ours.values()))) // 2)
    names = list(ours) + list(curves)
    every = {**ours, **curves}
    return [(f"{a} and {b}", *distance(every[a], every[b], first))
            for i, a in enumerate(names) for b in names[i + 1:]]


def plot(ours, curves, file):
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 7), sharex=True,
                                         gridspec_kw={"height_ratios": [2, 1]})
    reference = smoothed(next(iter(curves.values())))
    for name, curve in [*curves.items(), *ours.items()]:
        smooth = smoothed(curve)
        steps = range(0, len(curve), 4)
        style = {"linewidth": 1.8, "color": "black"} if name.startswith("Plimsoll") else {"linewidth": 1.1}
        if "bf16" in name:
            style["linestyle"] = "dashed"
        top.plot(steps, [smooth[i] for i in steps], label=name, **style)
        bottom.plot(steps, [smooth[i] - reference[i] for i in steps], **style)
    top.set_ylabel(f"loss, nats a token (mean of {SMOOTH} steps)")
    top.legend()
    bottom.set_ylabel("difference from\nPyTorch, seed 1")
    bottom.set_xlabel("step")
    bottom.set_ylim(-0.1, 0.1)
    for axis in (top, bottom):
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tokens", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs/convergence")
    parser.add_argument("--binary", default=str(ROOT / "bazel-bin/trainer/plimsoll"))
    parser.add_argument("--model", default="gpt2-124m")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--positions", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--grad-bf16", action="store_true")
    parser.add_argument("--set", action="append", default=[], help="key=value for our run file")
    parser.add_argument("--device", default="cuda", help="PyTorch's")
    parser.add_argument("--pytorch-only", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.batch % args.accumulate:
        parser.error("--batch is no multiple of --accumulate")
    args.out.mkdir(parents=True, exist_ok=True)
    if args.pytorch_only:
        train_pytorch(args)
        return
    subprocess.run([sys.executable, __file__, "--pytorch-only", *sys.argv[1:]], check=True)
    peer = json.loads((args.out / "pytorch.json").read_text())
    ways = {"Plimsoll, weights of seed 1": []}
    if args.grad_bf16:
        ways["Plimsoll, gradients in bf16"] = ["amp.grad_dtype=bf16"]
    ours, seconds = {}, peer["seconds"]
    for name, settings in ways.items():
        ours[name], seconds[name] = train_plimsoll(args, settings)
    rows = compare(ours, peer["curves"])
    print(f"{'smoothed curves, after the warm-up':<75}{'mean gap':>10}{'largest':>10}")
    for name, mean, largest in rows:
        print(f"{name:<75}{mean:>10.4f}{largest:>10.4f}")
    for name, curve in [*ours.items(), *peer["curves"].items()]:
        print(f"{name:<45} last {SMOOTH} steps {smoothed(curve)[-1]:.4f}, {seconds[name]:.1f} s")
    (args.out / "losses.json").write_text(json.dumps({
        "version": peer["version"], "plimsoll": ours, "curves": peer["curves"], "seconds": seconds,
        "gaps": [{"between": n, "mean": m, "largest": l} for n, m, l in rows]}))
    plot(ours, peer["curves"], args.out / "convergence.svg")


if __name__ == "__main__":
    main()
