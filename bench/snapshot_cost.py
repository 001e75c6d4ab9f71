#!/usr/bin/env python3
"""What do snapshots cost a run?

    python3 bench/snapshot_cost.py PLIMSOLL RUN.yaml [--every 100] [--saves 3] [--repeat 2] [--ways none async]
                                   [--set KEY=VALUE …] [--launch "mpirun -np 4"] [--dir FOLDER] [--json FILE]

Trains without snapshots, with such that training waits for, and with save.async, taking turns. Prints the mean time
of a step, by the clock on the wall, over as many steps as belong to the saves among them, and how much longer the
step behind a save took than the others. Snapshots go to FOLDER, and are removed.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = {"none": ["save.every=0"], "waiting": ["save.async=false"], "async": ["save.async=true"]}


def train(arguments, way, folder):
    run = os.path.join(folder, "run")
    steps = arguments.every * (arguments.saves + 1)
    sets = [f"run.dir={run}", f"train.steps={steps}", f"train.log_every={arguments.every // 2}", "train.eval_every=0",
            "train.sample_every=0", f"save.every={arguments.every}", "save.keep=1", "save.on_exit=false",
            "save.model=false", "memory.summary=false", "log.report=false", *arguments.set, *WAYS[way]]
    command = [*arguments.launch.split(), arguments.plimsoll, "train", arguments.config]
    for each in sets:
        command += ["--set", each]
    seen, news = {}, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if found := re.match(r"step +(\d+)/", line):
                seen[int(found[1])] = time.monotonic()
            elif line.startswith("snapshot"):
                news.append(line.strip())
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    first, last = arguments.every // 2, steps - arguments.every // 2  # as many saves as `every` fits between
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    took = [row["step_ms"] for row in rows if first < row["step"] <= last]
    behind = [row["step_ms"] for row in rows if first < row["step"] <= last and row["step"] % arguments.every == 0]
    shutil.rmtree(run)
    return {"way": way, "mean_ms": 1e3 * (seen[last] - seen[first]) / (last - first),
            "median_ms": statistics.median(took), "behind_a_save_ms": statistics.median(behind),
            "loss": rows[-1]["loss"], "news": news}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("config")
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--saves", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--launch", default="")
    parser.add_argument("--dir")
    parser.add_argument("--json")
    arguments = parser.parse_args()

    results = []
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        for _ in range(arguments.repeat):
            for way in arguments.ways:
                results.append(train(arguments, way, folder))
                print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    if len({result["loss"] for result in results}) != 1:
        raise SystemExit("the losses differ")
    mean = {way: statistics.mean(r["mean_ms"] for r in results if r["way"] == way) for way in arguments.ways}
    print(f"save.every: {arguments.every}; means of {arguments.repeat} runs with {arguments.saves} saves each")
    print(f"{'snapshots':<10} {'ms a step':>10} {'more':>8} {'behind a save':>14}")
    for way in arguments.ways:
        behind = statistics.mean(r["behind_a_save_ms"] - r["median_ms"] for r in results if r["way"] == way)
        print(f"{way:<10} {mean[way]:10.2f} {100 * (mean[way] / mean[arguments.ways[0]] - 1):7.2f} % {behind:+11.1f} ms")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
