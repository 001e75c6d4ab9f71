#!/usr/bin/env python3
"""Plimsoll beside PyTorch on one GPU: the same models, batches, types and optimizer.

    pip install torch transformers timm
    bazel build --config=cuda //bench:cuda_step
    python3 bench/cuda_against_pytorch.py [CASE …] [--plimsoll-only | --pytorch-only]

PyTorch runs as its users run it: torch.compile (--eager: without), fused AdamW, flash attention,
autocast to 16 bits or products in TF32 (the Qwen cases: weights and moments in bf16, as
configs/bench/ has them). Each runs in a process of its own. Printed are ms a step, tokens/s, MFU,
memory, and the ratios, also to the case that a case is put beside (the same without dropout, or in
16 bits), where that is measured in the same call. MFU counts 6 N + attention FLOPs a token, the
causal half, no recomputation, of 989 TFLOP/s (H100 and H200, dense bf16; half of it in TF32;
--peak). Memory: what PyTorch's tensors took at most and what its allocator reserved; our arena; and what
the driver counts for the process (a dash where it does not tell). PyTorch is a peer to compare
with, not a dependency.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 1 << 30


# The rows of README.md's table and others: a run file with settings for ours, arguments of cuda_peer.py for PyTorch.
ROWS = {row["name"]: row for row in json.loads((ROOT / "bench/speed_rows.json").read_text()) if "peer" in row}


class Peer:
    """A process that compiles, says that it is ready, and measures when asked."""

    def __init__(self, case, args):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "bench/cuda_peer.py"), *case["peer"], "--steps",
             str(args.steps), "--wait", *(["--no-compile"] if args.eager else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def ready(self):
        return self.process.stdout.readline().strip() == "ready"

    def measure(self):
        out, _ = self.process.communicate("go\n")
        if self.process.returncode != 0:
            self.errors.seek(0)
            return {"error": (self.errors.read().strip().splitlines() or ["failed"])[-1]}
        return json.loads(out.splitlines()[-1])


def measure_peers(names, args):
    """All at once compile on the processor's cores; one after the other is timed."""
    results = {}
    for group in ([names] if args.together else [[name] for name in names]):
        peers = {name: Peer(ROWS[name], args) for name in group}
        for peer in peers.values():
            peer.ready()
        for name, peer in peers.items():
            results[name] = peer.measure()
    return results


def measure_ours(name, args):
    with tempfile.NamedTemporaryFile() as file:
        run = subprocess.run(
            [args.binary, ROWS[name]["config"],
             *(p for s in [*ROWS[name].get("sets", []), *args.set] for p in ("--set", s)),
             "--steps", str(args.steps), "--json", file.name],
            cwd=ROOT, capture_output=True, text=True)
        if run.returncode != 0:
            return {"error": (run.stderr.strip().splitlines() or ["failed"])[-1]}
        if args.verbose:
            print(run.stdout)
        return json.loads(pathlib.Path(file.name).read_text())


def gib(row, key):
    return f"{row[key] / GIB:.2f}" if row.get(key) else "-"


def report(name, ours, peer, args):
    print(f"\n{name}")
    rate = ROWS[name].get("unit", "tokens") + "/s"
    peak = args.peak or ROWS[name].get("peak", 989)
    print(f"{'':<22}{'ms a step':>10}{rate:>11}{'MFU':>8}{'tensors GiB':>13}"
          f"{'reserved GiB':>14}{'process GiB':>13}")
    flops = (ours or {}).get("model_flops_per_token") or (peer or {}).get("model_flops_per_token")
    for label, row, tensors in (("Plimsoll", ours, "arena_bytes"),
                                ("PyTorch", peer, "allocated_bytes")):
        if row is None:
            continue
        if "error" in row:
            print(f"{label:<22} {row['error']}")
            continue
        mfu = f"{row['tokens_per_s'] * flops / (peak * 1e10):.1f}%" if flops else "-"
        name = row.get("version", label) if label == "PyTorch" else label
        print(f"{name:<22}{row['step_ms']:>10.2f}{row['tokens_per_s']:>11.0f}"
              f"{mfu:>8}{gib(row, tensors):>13}{gib(row, 'reserved_bytes'):>14}"
              f"{gib(row, 'process_bytes'):>13}")
    if ours and peer and "error" not in ours and "error" not in peer:
        def ratio(a, b):
            return f"{ours[a] / peer[b]:.2f}" if ours.get(a) and peer.get(b) else "-"
        print(f"{'ratio':<22}{ratio('step_ms', 'step_ms'):>10}"
              f"{ratio('tokens_per_s', 'tokens_per_s'):>11}{'':>8}"
              f"{ratio('arena_bytes', 'allocated_bytes'):>13}"
              f"{ratio('arena_bytes', 'reserved_bytes'):>14}"
              f"{ratio('process_bytes', 'process_bytes'):>13}")


def report_besides(results):
    """How long a step of each case takes, as a multiple of the case that it is put beside."""
    lines = []
    for name in results:
        beside = ROWS[name].get("beside")
        ratios = []
        for who in ("plimsoll", "pytorch"):
            both = [results.get(case, {}).get(who) or {} for case in (name, beside)]
            known = all("step_ms" in row for row in both)
            ratios.append(f"{both[0]['step_ms'] / both[1]['step_ms']:.3f}" if known else "-")
        if beside in results:
            lines.append(f"{name + ' / ' + beside:<44}{ratios[0]:>10}{ratios[1]:>10}")
    if lines:
        print(f"\n{'ms a step, ratio':<44}{'Plimsoll':>10}{'PyTorch':>10}")
        print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", metavar="CASE",
                        help=f"of {', '.join(ROWS)}; default: all")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--set", action="append", default=[], help="key=value for our run file")
    parser.add_argument("--peak", type=float, help="TFLOP/s that MFU is a share of")
    parser.add_argument("--eager", action="store_true", help="PyTorch without torch.compile")
    parser.add_argument("--binary", default=str(ROOT / "bazel-bin/bench/cuda_step"))
    parser.add_argument("--together", action="store_true",
                        help="let the PyTorch processes compile side by side (all must fit)")
    parser.add_argument("--verbose", action="store_true", help="also print our table of ops")
    parser.add_argument("--json", help="also write the figures to this file")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--plimsoll-only", action="store_true")
    only.add_argument("--pytorch-only", action="store_true")
    args = parser.parse_args()
    names = args.cases or list(ROWS)
    for name in names:
        if name not in ROWS:
            sys.exit(f"{name}: no such case; there are {', '.join(ROWS)}")
    peers = {} if args.plimsoll_only else measure_peers(names, args)
    results = {}
    for name in names:
        ours = None if args.pytorch_only else measure_ours(name, args)
        results[name] = {"plimsoll": ours, "pytorch": peers.get(name)}
        report(name, ours, peers.get(name), args)
        sys.stdout.flush()
    report_besides(results)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
