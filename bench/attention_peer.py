#!/usr/bin/env python3
"""Attention's paths compared with PyTorch's scaled_dot_product_attention: one table of both, on one GPU.

    python3 bench/attention_peer.py --cases > cases.json
    bazel run --config=cuda //bench:op -- --device cuda --cases $PWD/cases.json --csv > paths.csv
    python3 bench/attention_peer.py paths.csv [--pytorch FILE | --no-pytorch] > table.md

The cases are types x widths of a head x masks x dropout, at one number of tokens and one width of
the model. PyTorch's attention is timed at the same shapes, forward and backward, on queries, keys and
values of their own, by the kernel that it chooses (products of float32 in TF32). Its backward pass
may add in any order. A share is the shortest time that the GPU could need, in parts of the measured
one: FLOPs at the rate of a large product of that type, or bytes at the rate of a copy, whichever
takes longer, both as bench/op measured them. Counted are the scores that the mask leaves: 4 FLOPs for
each of them and each element of a head forward, 10 backward, which include the scores that are
computed again. Printed are the paths (milliseconds, the share, PyTorch's milliseconds) and, for each
type, the worst share and a third of the best.

--save keeps PyTorch's times in a file, which --pytorch reads in place of measuring.
"""
import argparse
import csv
import itertools
import json
import pathlib
import re
import statistics
import sys

PASSES = {"forward": 2, "backward": 5}  # products of the scores' size
BATCH_MS, BATCHES = 5, 7
TYPES, WIDTHS = ("bf16", "fp16", "tf32"), (40, 64, 96, 128, 192, 256)
MASKS, DROPOUTS = ("causal", "full", "padded"), (0, 0.1)
BATCH, LENGTH, MODEL_WIDTH = 32, 1024, 768


def key(row):
    return "/".join(str(row[part]) for part in ("type", "width", "mask", "dropout"))


# --- Cases ------------------------------------------------------------------------------------------

def shapes():
    """A row for each path. Padded sequences have from half of the tokens to all of them."""
    for kind, width, mask, dropout in itertools.product(TYPES, WIDTHS, MASKS, DROPOUTS):
        row = {"type": kind, "width": width, "mask": mask, "dropout": dropout, "batch": BATCH,
               "length": LENGTH, "heads": max(1, MODEL_WIDTH // width)}
        if mask == "padded":
            row["lengths"] = [LENGTH - i * 97 % (LENGTH // 2) for i in range(BATCH)]
        yield row


def cases():
    """The same for bench/op."""
    for row in shapes():
        batch, length, heads = row["batch"], row["length"], row["heads"]
        out = [batch, length, heads * row["width"]]
        qkv = [batch, length, 3 * out[2]]
        more = [[2] if row["dropout"] else None]
        if row["mask"] == "padded":
            more.append({"shape": [batch], "values": row["lengths"]})
        kind = "f16" if row["type"] == "fp16" else row["type"]
        for name, op, inputs in (("forward", "attention", [qkv]),
                                 ("backward", "attention_backward",
                                  [qkv, out, [batch, heads, length], out])):
            yield {"case": f"{key(row)} {name}", "op": op, "type": kind, "heads": heads,
                   "kv_heads": heads, "causal": row["mask"] == "causal",
                   "dropout": row["dropout"], "in": inputs + more}


def scores(row):
    """That the mask leaves, of one head in all sequences."""
    lengths = row.get("lengths", [row["length"]] * row["batch"])
    return sum(n * (n + 1) // 2 if row["mask"] == "causal" else n * n for n in lengths)


def read_paths(lines):
    """The rows of `bench/op --csv`: {"device", "copy_gb_per_s", "bf16_tflops", "tf32_tflops", "rows"}."""
    first, *lines = lines
    device, *rates = re.match(r"# (.*): copies (\S+) GB/s, products (\S+) TFLOP/s in 16 bits, "
                              r"(\S+) in tf32", first).groups()
    copy, low, tf32 = map(float, rates)
    measured = {}
    for line in csv.DictReader(line for line in lines if not line.startswith("#")):
        measured[line["case"].split(":")[0]] = line
    rows = []
    for row in shapes():
        found = {name: measured.get(f"{key(row)} {name}") for name in PASSES}
        if None in found.values():
            continue
        for name, products in PASSES.items():
            seconds = 1e-6 * float(found[name]["us"])
            flops = 2 * products * scores(row) * row["heads"] * row["width"]
            floor = flops / (tf32 if row["type"] == "tf32" else low) * 1e-12
            # Its bytes in GB/s are those of the op's cost rule.
            share = max(floor / seconds, float(found[name]["GB/s"]) / copy)
            row[name] = {"ms": 1e3 * seconds, "tflops": 1e-12 * flops / seconds, "share": share}
        rows.append(row)
    return {"device": device, "copy_gb_per_s": copy, "bf16_tflops": low, "tf32_tflops": tf32, "rows": rows}


# --- PyTorch ----------------------------------------------------------------------------------------

def median_ms(run):
    """Of batches of runs that follow one another, so that the host is ahead of the GPU."""
    import torch
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def time(runs):
        begin.record()
        for _ in range(runs):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / runs

    time(1)
    runs = min(max(int(BATCH_MS / time(1)), 1), 50)
    return statistics.median(time(runs) for _ in range(BATCHES))


def measure(row):
    import torch
    from torch.nn import functional as F
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(row["type"], torch.float32)
    torch.set_float32_matmul_precision("highest" if row["type"] == "fp32" else "high")
    shape = (row["batch"], row["length"], row["heads"], row["width"])
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype).transpose(1, 2).requires_grad_()
               for _ in range(3))
    mask = None
    if "lengths" in row:
        lengths = torch.tensor(row["lengths"], device="cuda")
        mask = (torch.arange(row["length"], device="cuda") < lengths[:, None])[:, None, None]

    def forward():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=row["dropout"],
                                              is_causal=row["mask"] == "causal")

    out = forward()
    dout = torch.randn_like(out)
    # With gradients wanted, as in training: the forward pass then keeps what the backward reads.
    return {"forward": median_ms(forward),
            "backward": median_ms(lambda: torch.autograd.grad(out, (q, k, v), dout,
                                                              retain_graph=True))}


def measure_all(rows):
    import torch
    torch.manual_seed(1)
    times = {}
    for row in rows:
        try:
            times[key(row)] = measure(row)
        except RuntimeError as error:
            times[key(row)] = {"error": str(error).splitlines()[0]}
        print(key(row), times[key(row)], file=sys.stderr, flush=True)
    return {"version": torch.__version__, "device": torch.cuda.get_device_name(), "times": times}


# --- Tables -----------------------------------------------------------------------------------------

def unique(values):
    return list(dict.fromkeys(values))


def cell(row, name, times):
    """Milliseconds, the share, PyTorch's milliseconds."""
    if row is None:
        return "–"
    own = row[name]
    text = f"{own['ms']:.3f} ({100 * own['share']:.0f} %)"
    theirs = times.get(key(row))
    return text if theirs is None else f"{text} / {format_ms(theirs.get(name))}"


def format_ms(ms):
    return "–" if ms is None else f"{ms:.3f}"


def table(rows, name, times):
    """Types and widths down, masks and dropout across."""
    cells = {key(row): row for row in rows}
    columns = unique((row["mask"], row["dropout"]) for row in rows)
    heads = [f"{mask}, dropout {dropout:g}" if dropout else mask for mask, dropout in columns]
    lines = [f"| {name}: type, width | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for kind, width in unique((row["type"], row["width"]) for row in rows):
        found = [cells.get(key({"type": kind, "width": width, "mask": mask, "dropout": dropout}))
                 for mask, dropout in columns]
        lines.append(f"| {kind}, {width} | " + " | ".join(cell(row, name, times) for row in found)
                     + " |")
    return lines


def extremes(rows):
    """For each type and pass: the best share, a third of it, the worst, and whether that is above."""
    found = []
    for kind in unique(row["type"] for row in rows):
        for name in PASSES:
            shares = [(row[name]["share"], row) for row in rows if row["type"] == kind]
            best, worst = (choose(shares, key=lambda pair: pair[0]) for choose in (max, min))
            found.append({"type": kind, "pass": name, "best": best[0], "best_at": best[1],
                          "bound": best[0] / 3, "worst": worst[0], "worst_at": worst[1],
                          "holds": worst[0] >= best[0] / 3})
    return found


def describe(row):
    dropout = f", dropout {row['dropout']:g}" if row["dropout"] else ""
    return f"{row['width']}, {row['mask']}{dropout}"


def extremes_table(rows):
    lines = ["| type, pass | best share | a third of it | worst share | |", "|---|---|---|---|---|"]
    for e in extremes(rows):
        lines.append(f"| {e['type']}, {e['pass']} | {100 * e['best']:.1f} % ({describe(e['best_at'])}) "
                     f"| {100 * e['bound']:.1f} % | {100 * e['worst']:.1f} % "
                     f"({describe(e['worst_at'])}) | {'holds' if e['holds'] else 'missed'} |")
    return lines


def speedups(rows, times):
    """PyTorch's time over ours, by type and pass: the smallest, the median and the largest."""
    lines = ["| PyTorch's time by ours | smallest | median | largest |", "|---|---|---|---|"]
    for kind in unique(row["type"] for row in rows):
        for name in PASSES:
            ratios = [(times[key(row)][name] / row[name]["ms"], row) for row in rows
                      if row["type"] == kind and name in times.get(key(row), {})]
            if ratios:
                low, high = (choose(ratios, key=lambda pair: pair[0]) for choose in (min, max))
                middle = statistics.median(ratio for ratio, _ in ratios)
                lines.append(f"| {kind}, {name} | {low[0]:.2f} ({describe(low[1])}) | {middle:.2f} "
                             f"| {high[0]:.2f} ({describe(high[1])}) |")
    return lines


def document(ours, peer):
    rows, times = ours["rows"], peer["times"] if peer else {}
    some = rows[0]
    lines = [f"{ours['device']}: products of {ours['bf16_tflops']:.0f} TFLOP/s in 16 bits, "
             f"{ours['tf32_tflops']:.0f} in TF32, copies of {ours['copy_gb_per_s']:.0f} GB/s; "
             f"{some['batch']} sequences of {some['length']} tokens"
             + (f"; PyTorch {peer['version']}" if peer else ""), ""]
    for name in PASSES:
        lines += [*table(rows, name, times), ""]
    lines += extremes_table(rows)
    if times:
        lines += ["", *speedups(rows, times)]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=pathlib.Path, nargs="?", help="what bench/op --csv printed")
    parser.add_argument("--cases", action="store_true", help="print the cases for bench/op")
    parser.add_argument("--save", type=pathlib.Path, help="also write PyTorch's times to this file")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--pytorch", type=pathlib.Path, help="PyTorch's times, from --save")
    source.add_argument("--no-pytorch", action="store_true", help="our paths alone")
    args = parser.parse_args()
    if args.cases:
        print("[\n" + ",\n".join(json.dumps(case) for case in cases()) + "\n]")
        return
    if args.paths is None:
        parser.error("PATHS: which rows? (--cases prints the cases for bench/op)")
    ours = read_paths(args.paths.read_text().splitlines())
    peer = None
    if args.pytorch:
        peer = json.loads(args.pytorch.read_text())
    elif not args.no_pytorch:
        peer = measure_all(ours["rows"])
    if args.save and peer:
        args.save.write_text(json.dumps(peer, indent=1))
    print(document(ours, peer))


if __name__ == "__main__":
    main()
