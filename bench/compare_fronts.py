#!/usr/bin/env python3
"""Is a plan of this build ever worse than another build's, within the same budget?

  bazel build //bench:price_front
  python3 bench/compare_fronts.py OLD [--only SUBSTRING] [--budgets 40] [--keep FOLDER] [--price PRICE_FRONT]

OLD is the other build's plimsoll, whose `plan --sweep --json` must list `fates`. Every file of configs/ that describes
a run is planned by it as MODES says, for so many budgets; price_front prices each of these plans, and the one that
this build chooses within that budget, by this build's judge. A line for each front: how much slower the worst plan is
and where, how much faster the best, how many are slower by over 0.1 %, how many budgets this build cannot meet, by how
much the judges disagree, and the seconds that both took. Then the largest gaps between neighbouring plans of either
front: how much slower the smaller one is, and how much smaller the slower one. Ends with 1 when a plan is slower by over 0.1 %, or none is
found. --keep: sweeps of OLD that are there already are used again.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACES = ["memory.weights=auto", "memory.gradients=auto", "optimizer.place=auto", "train.blocks_first=auto",
          "optimizer.in_backward=auto"]
AWAY = ['checkpointing.offload=["*"]']
MODES = {"cpu": ([], ["device=cpu", "train.threads=2"]), "auto": (["--device", "h200"], []),
         "offload": (["--device", "h200"], AWAY), "open": (["--device", "h200"], PLACES),
         "open, offload": (["--device", "h200"], [*AWAY, *PLACES])}


def run(*command):
    start = time.monotonic()
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT, check=False)
    return done, time.monotonic() - start


def gaps(points):
    """The largest gaps between neighbours of a front, given (arena bytes, ms): in time and in bytes."""
    front, fastest = [], float("inf")
    for size, ms in sorted(set(points)):
        if ms < fastest:
            front.append((size, ms))
            fastest = ms
    pairs = list(zip(front, front[1:]))
    time_gap = max(((low[1] / high[1] - 1, low[0]) for low, high in pairs), default=(0, 0))
    byte_gap = max(((high[0] - low[0], low[0]) for low, high in pairs), default=(0, 0))
    return (f"{100 * time_gap[0]:.1f} % at {time_gap[1] / 2**30:.2f} GiB, "
            f"{byte_gap[0] / 2**20:.0f} MiB at {byte_gap[1] / 2**30:.2f} GiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("--only", default="")
    parser.add_argument("--budgets", type=int, default=40)
    parser.add_argument("--keep", default=None)
    parser.add_argument("--price", default=ROOT / "bazel-bin/bench/price_front")
    arguments = parser.parse_args()
    old = pathlib.Path(arguments.old).resolve()
    folder = pathlib.Path(arguments.keep or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    files = [file for part in ("", "models", "bench", "techniques") for file in sorted((ROOT / "configs" / part).glob("*.yaml"))]
    fronts = worse = 0
    for file in files:
        for mode, (options, sets) in MODES.items():
            name = f"{file.relative_to(ROOT / 'configs').with_suffix('')}, {mode}"
            if arguments.only not in name:
                continue
            sets = ["memory.calibrate=false", "checkpointing.policy=auto", *sets]
            more = [*options, *(part for each in sets for part in ("--set", each))]
            sweep = folder / (name.replace("/", ".").replace(", ", ".") + ".json")
            seconds = 0.0
            if not sweep.exists():
                done, seconds = run(old, "plan", file, "--sweep", arguments.budgets, "--json", *more)
                if done.returncode != 0:
                    print(f"{name}: not planned: {(done.stderr.strip().splitlines() or ['?'])[-1][:120]}", flush=True)
                    continue
                sweep.write_text(done.stdout)
            done, own_seconds = run(pathlib.Path(arguments.price).resolve(), file, sweep, *more)
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            if done.returncode != 0 or not rows:
                print(f"{name}: not priced: {done.stderr.strip()[-200:]}", flush=True)
                worse += 1
                continue
            slower = [(row["new_ms"] / row["old_ms"] - 1, row["budget_bytes"]) for row in rows if row["new_ms"]]
            none = len(rows) - len(slower)
            most, where = max(slower)
            many = sum(1 for ratio, _ in slower if ratio > 0.001)
            disagree = max(abs(row["old_ms"] / row["old_said_ms"] - 1) for row in rows)
            fronts += 1
            worse += many > 0 or none > 0
            print(f"{name}: worst {100 * most:+.2f} % at {where / 2**30:.2f} GiB, best {100 * min(slower)[0]:+.2f} %; "
                  f"{many} slower, {none} not met; judges {100 * disagree:.2f} %; {seconds:.1f} s, {own_seconds:.1f} s",
                  flush=True)
            print(f"    gaps: {gaps([(row['old_arena_bytes'], row['old_ms']) for row in rows])} -> "
                  f"{gaps([(row['new_arena_bytes'], row['new_ms']) for row in rows if row['new_ms']])}", flush=True)
    print(f"{fronts} fronts, {worse} of them worse somewhere")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
