#!/usr/bin/env python3
"""A model from scratch on real text: Plimsoll's loss curve beside PyTorch's, on one GPU.

    pip install torch safetensors matplotlib
    bazel build --config=cuda //app:plimsoll
    plimsoll data tokenize novels.txt --tokenizer GPT2_FOLDER --out tokens
    python3 bench/convergence.py tokens/train_000000.bin --out runs/convergence

PyTorch (torch.compile, autocast, fused AdamW) trains from several seeds of the initial weights;
Plimsoll trains from the weights of the first, with --own-seeds of more. All read the same
consecutive windows of the same token file (little-endian uint16, no header) in the same order, each
token once, with the same schedule. What the seeds differ by is the noise that the distance between
Plimsoll and PyTorch is compared with. --again trains the first seed with PyTorch once more,
uncompiled: same weights, same data, other kernels.

--dropout P: on embeddings, attention and branches. The two programs draw different masks, so that
with the same weights and batches they are as far apart as two seeds of the masks:

    python3 bench/convergence.py tokens/train_000000.bin --dropout 0.1 --own-seeds 2

BERT learns to find masked tokens, in batches that both read with the same masks
(bench/masked_batches.py); fp16 has dynamic loss scaling in both:

    pip install transformers
    plimsoll data wordpiece novels.txt --size 30522 --out vocabulary
    plimsoll data tokenize novels.txt --tokenizer vocabulary --out pieces
    python3 bench/convergence.py pieces/train_000000.bin --model bert-base --vocabulary vocabulary --dtype fp16

--accumulate N goes through a batch in N micro-steps. --grad-bf16 trains the first seed twice more, with
gradients that micro-steps carry in bf16: Plimsoll with amp.grad_dtype, whose sums round
stochastically, and PyTorch with sums that round to the nearest, as those of bf16 parameters do.
--fp8 current delayed trains each of Plimsoll's seeds once more by each recipe of amp.fp8.

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
VOCAB = 50304  # of GPT-2
LR = {"gpt2": 6e-4, "bert": 1e-4}  # at most; at the end a tenth
WARMUP = 100
DATA_SEED = 1  # of the order and the masks of BERT's texts
SMOOTH = 20  # number of steps that each plotted and compared point averages


def is_masked(args):
    return args.model.startswith("bert")


def learning_rate(step, args):
    """As Plimsoll's schedule `cosine` has it."""
    if step < WARMUP:
        return args.lr * (step + 1) / (WARMUP + 1)
    low = args.lr / 10
    return low + (args.lr - low) * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (args.steps - WARMUP)))


# --- PyTorch, in a process of its own ---------------------------------------------------------------

def new_model(args):
    import peer_models
    if is_masked(args):
        import masked_batches
        vocab = masked_batches.Vocabulary(args.vocabulary).size
        vocab = -(-vocab // 128) * 128
        return peer_models.build(args.model, vocab, args.sequence, False, args.dropout)[0]
    layers, width, heads = peer_models.GPT2[args.model]
    return peer_models.Gpt2(layers, width, heads, VOCAB, args.positions, dropout=args.dropout)


def save_for_hub(model, folder, args):
    """Writes the folder that Plimsoll begins with; it says the dropout, too."""
    if is_masked(args):
        model.hub.save_pretrained(folder)
        return
    import peer_models
    from safetensors.torch import save_file
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: (p.detach().t() if transposed else p.detach()).float().contiguous().cpu()
               for name, (p, transposed) in model.hub_tensors().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": VOCAB,
        "n_positions": args.positions, "n_embd": model.wte.weight.shape[1],
        "n_layer": len(model.blocks), "n_head": peer_models.GPT2[args.model][2],
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "resid_pdrop": args.dropout,
        "embd_pdrop": args.dropout, "attn_pdrop": args.dropout, "tie_word_embeddings": True,
        "torch_dtype": "float32"}, indent=1))


def read_batches(args):
    """Inputs and targets of all steps, [steps, batch, sequence] on the device."""
    import numpy
    import torch
    tokens = numpy.fromfile(args.tokens, dtype="<u2")
    shape = (args.steps, args.batch, args.sequence)
    if is_masked(args):
        import masked_batches
        text = masked_batches.MaskedBatches(tokens, masked_batches.Vocabulary(args.vocabulary),
                                            args.sequence, DATA_SEED)
        both = numpy.array([text.sample(n) for n in range(args.steps * args.batch)], dtype="int32")
        x, y = both[:, 0], both[:, 1]
    else:
        count = math.prod(shape)
        if len(tokens) <= count:
            sys.exit(f"{args.tokens}: {len(tokens)} tokens, {count + 1} are needed; give fewer --steps")
        tokens = tokens.astype("int32")
        x, y = tokens[:count], tokens[1: count + 1]
    return (torch.from_numpy(x.reshape(shape).copy()).to(args.device),
            torch.from_numpy(y.reshape(shape).copy()).to(args.device))


def train_pytorch(args):
    import contextlib
    import torch
    import masked_batches
    import peer_models

    torch.set_float32_matmul_precision("highest" if args.dtype == "fp32" else "high")
    inputs, targets = read_batches(args)
    result = {"version": torch.__version__, "curves": {}, "seconds": {}}
    low_type = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(args.dtype)

    def fresh(seed):
        torch.manual_seed(seed)
        with torch.device(args.device):
            return new_model(args)

    for seed in range(args.own_seeds, 0, -1):
        model = fresh(seed)
        save_for_hub(model, initial_folder(args, seed), args)
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
        optimizer = peer_models.optimizer_for(model, args.lr)
        scaler = torch.amp.GradScaler(args.device, enabled=args.dtype == "fp16")
        losses = []
        carried = {}  # gradients of matrices in bf16
        start = time.perf_counter()
        for step in range(args.steps):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, args)
            x, y = inputs[step].long(), targets[step].long()
            wanted = (y != masked_batches.IGNORED).sum()
            total = 0
            for first in range(0, args.batch, rows):
                part = slice(first, first + rows)
                share = (y[part] != masked_batches.IGNORED).sum() / wanted
                with (torch.autocast(args.device, dtype=low_type) if low_type
                      else contextlib.nullcontext()):
                    loss = forward(x[part], y[part]) * share
                scaler.scale(loss).backward()
                total = total + loss.detach()
                if low:
                    for p in model.parameters():
                        if p.dim() > 1:
                            carried[p] = p.grad.bfloat16() + carried.pop(p, 0)
                            p.grad = None
            for p, gradient in carried.items():
                p.grad = gradient.float()
            carried.clear()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            losses.append(total)
        name = (f"PyTorch, seed {seed}" + ("" if forward is compiled else ", uncompiled")
                + (", gradients in bf16" if low else ""))
        result["curves"][name] = torch.stack(losses).float().tolist()
        result["seconds"][name] = time.perf_counter() - start
        print(name, result["curves"][name][-1], flush=True)
        (args.out / "pytorch.json").write_text(json.dumps(result))


# --- Plimsoll ---------------------------------------------------------------------------------------

def initial_folder(args, seed):
    return args.out / f"initial-{seed}"


def train_plimsoll(args, seed, settings=()):
    run = args.out / "run"
    file = args.out / "run.yaml"
    data = (f"source: masked_text, tokenizer: {args.vocabulary}, seed: {DATA_SEED}"
            if is_masked(args) else "order: consecutive, format: uint16")
    file.write_text(f"""model: {{init_from: {initial_folder(args, seed)}, sequence: {args.sequence}}}
data: {{train: {args.tokens}, {data}}}
train: {{steps: {args.steps}, micro_batch: {args.batch // args.accumulate}, accumulate: {args.accumulate}, seed: {seed}}}
optimizer: {{lr: {args.lr}, betas: [0.9, 0.95], weight_decay: 0.1, clip_grad_norm: 1}}
schedule: {{name: cosine, warmup: {WARMUP}, min_lr: {args.lr / 10}}}
amp: {{dtype: {args.dtype}}}
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
        elif "fp8" in name:
            style = {"linewidth": 1.1, "linestyle": "dotted" if "delayed" in name else "dashed"}
        elif name.startswith("Plimsoll") and not name.endswith("seed 1"):
            style["color"] = "dimgray"
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
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokens", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs/convergence")
    parser.add_argument("--binary", default=str(ROOT / "bazel-bin/app/plimsoll"))
    parser.add_argument("--model", default="gpt2-124m", help="of GPT-2 or BERT, as peer_models has them")
    parser.add_argument("--vocabulary", type=pathlib.Path, help="folder of BERT's WordPiece vocabulary")
    parser.add_argument("--dtype", choices=["bf16", "fp16", "tf32", "fp32"], default="bf16")
    parser.add_argument("--dropout", type=float, default=0.0, metavar="P")
    parser.add_argument("--lr", type=float, help="at most; default: 6e-4 of GPT-2, 1e-4 of BERT")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--positions", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=2, help="PyTorch's")
    parser.add_argument("--own-seeds", type=int, default=1, help="Plimsoll's, of weights and dropout")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--grad-bf16", action="store_true")
    parser.add_argument("--fp8", nargs="+", choices=["current", "delayed"], default=[], metavar="RECIPE")
    parser.add_argument("--set", action="append", default=[], help="key=value for our run file")
    parser.add_argument("--device", default="cuda", help="PyTorch's")
    parser.add_argument("--pytorch-only", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.batch % args.accumulate:
        parser.error("--batch is no multiple of --accumulate")
    if not 0 <= args.dropout < 1:
        parser.error(f"--dropout {args.dropout}: give a probability below 1")
    if not 1 <= args.own_seeds <= args.seeds:
        parser.error(f"--own-seeds {args.own_seeds}: give 1 to --seeds, {args.seeds}")
    if is_masked(args) != (args.vocabulary is not None):
        parser.error("--vocabulary belongs to BERT: give both, or neither")
    args.lr = args.lr or LR["bert" if is_masked(args) else "gpt2"]
    args.out.mkdir(parents=True, exist_ok=True)
    if args.pytorch_only:
        train_pytorch(args)
        return
    subprocess.run([sys.executable, __file__, "--pytorch-only", *sys.argv[1:]], check=True)
    peer = json.loads((args.out / "pytorch.json").read_text())
    ways = {f"Plimsoll, weights of seed {seed}": (seed, []) for seed in range(1, args.own_seeds + 1)}
    if args.grad_bf16:
        ways["Plimsoll, gradients in bf16"] = (1, ["amp.grad_dtype=bf16"])
    for recipe in args.fp8:
        for seed in range(1, args.own_seeds + 1):
            ways[f"Plimsoll, fp8 {recipe}, seed {seed}"] = (seed, [f"amp.fp8.recipe={recipe}"])
    ours, seconds = {}, peer["seconds"]
    for name, (seed, settings) in ways.items():
        ours[name], seconds[name] = train_plimsoll(args, seed, settings)
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
