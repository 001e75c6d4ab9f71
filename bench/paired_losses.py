#!/usr/bin/env python3
"""Compares the losses of a study's rows in pairs of runs with the same seed, hence on equal batches.

  plimsoll ablate configs/studies/fp8.yaml
  python3 bench/paired_losses.py runs/fp8 --svg fp8.svg

The first row is what the others are compared with. Of each of them: the difference of the mean loss of the last
--window steps and of the last held-out loss, as shares of the first row's, each the mean over seeds with its 95 %
interval (Student's). The picture, which needs matplotlib, has the curves and their differences, means of --window steps.
"""
import argparse
import itertools
import json
import pathlib
import statistics

# Student's t, two-sided 95 %, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def interval(values):
    """Mean and half of the 95 % interval; of one value no interval."""
    if len(values) < 2:
        return statistics.mean(values), float("nan")
    return statistics.mean(values), STUDENT[len(values) - 1] * statistics.stdev(values) / len(values) ** 0.5


def read_rows(study):
    """By name of each row that is done: of its runs in order of seeds, the losses and held-out losses."""
    rows = {}
    for index, row in enumerate(json.loads((study / "study.json").read_text())["rows"], 1):
        if row["status"] != "done":
            continue
        folders = sorted(study.glob(f"runs/{index:03}-*"), key=lambda folder: int(folder.name.rsplit(".", 1)[1]))
        runs = []
        for folder in folders:
            metrics = folder / "metrics.jsonl"  # a command has none
            lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
            runs.append({key: [line[key] for line in lines if key in line] for key in ("loss", "eval_loss")})
        rows[row["name"]] = runs
    return rows


def smoothed(curve, window):
    sums = [0, *itertools.accumulate(curve)]
    return [(sums[i + window] - sums[i]) / window for i in range(len(curve) - window + 1)]


def share(value, base):
    return 100 * (value - base) / base


def plot(rows, window, file):
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 7), sharex=True, gridspec_kw={"height_ratios": [3, 2]})
    base_name, *others = rows
    curves = {name: [smoothed(run["loss"], window) for run in runs] for name, runs in rows.items()}
    length = len(curves[base_name][0])
    steps = range(0, length, max(1, length // 80))
    at = [window + step for step in steps]
    for name, of_seeds in curves.items():
        color = "black" if name == base_name else f"C{others.index(name)}"
        means = [statistics.mean(curve[step] for curve in of_seeds) for step in steps]
        top.plot(at, means, label=name, color=color, linewidth=1.4)
        if name == base_name:
            continue
        bands = [interval([share(a[step], b[step]) for a, b in zip(of_seeds, curves[base_name])]) for step in steps]
        bottom.plot(at, [mean for mean, _ in bands], color=color, linewidth=1.4)
        bottom.fill_between(at, [m - half for m, half in bands], [m + half for m, half in bands], color=color,
                            alpha=0.2, linewidth=0)
    bottom.axhline(0, color="black", linewidth=1)
    top.set_ylabel(f"loss, nats a token (mean of {window} steps)")
    top.legend()
    bottom.set_ylabel(f"difference from {base_name}, %\n(mean of seeds, 95 % interval)")
    bottom.set_xlabel("step")
    bottom.set_ylim(-1, 1)
    for axis in (top, bottom):
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=pathlib.Path, help="the study's directory")
    parser.add_argument("--window", type=int, default=100, metavar="STEPS")
    parser.add_argument("--svg", type=pathlib.Path, help="draw into this file")
    args = parser.parse_args()
    rows = read_rows(args.study)
    base_name, *others = rows
    base = rows[base_name]
    shortest = min(len(run["loss"]) for runs in rows.values() for run in runs)
    if not others or not 1 <= args.window <= shortest or any(len(runs) != len(base) for runs in rows.values()):
        parser.error(f"{args.study}: needs two rows or more, each with the same seeds and {args.window} steps")
    print(f"difference from {base_name}, %, mean of {len(base)} seeds ± half of the 95 % interval")
    print(f"{'row':<30}{f'last {args.window} steps':>20}{'held-out':>20}")
    for name in others:
        ends = [(statistics.mean(run["loss"][-args.window:]), statistics.mean(other["loss"][-args.window:]))
                for run, other in zip(rows[name], base)]
        held_out = [(run["eval_loss"][-1], other["eval_loss"][-1])
                    for run, other in zip(rows[name], base) if run["eval_loss"] and other["eval_loss"]]
        cells = []
        for pairs in (ends, held_out):
            mean, half = interval([share(a, b) for a, b in pairs]) if pairs else (float("nan"), float("nan"))
            cells.append(f"{mean:+.3f} ± {half:.3f}")
        print(f"{name:<30}{cells[0]:>20}{cells[1]:>20}")
    if args.svg:
        plot(rows, args.window, args.svg)


if __name__ == "__main__":
    main()
