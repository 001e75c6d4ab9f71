#!/usr/bin/env python3
"""How long does a step take with every layout of the ranks, and does `parallel: auto` find the best?

    python3 bench/layouts.py PLIMSOLL RUN.yaml --ranks 4 [--alone] [--auto] [--only 4x1z1,2x2z0]
                             [--steps 8] [--check-arena] [--set KEY=VALUE …] [--json FILE]
                             [--mpirun "mpirun --bind-to none"] [--seconds 560]

Trains some steps with each mesh and ZeRO stage that `plimsoll plan --ranks` says fits, and prints a
row for each as soon as it is known: the step as planned and as it was (the median of the second
half), tokens a second, the arena and what the process takes, as planned and as used. With --alone
the ranks first train one by one at the same time, each on a GPU of its own, and the rows of one
tensor rank say how much of the slowest one's rate each rank reaches. With --auto a run with `parallel:
auto` comes first, which also times the ops of all layouts, by whose rates the rows are then planned;
the last line compares it with the best row. RUN.yaml, or --set, gives train.global_batch and
memory.budget for that. With --check-arena each row is run once more for two steps, slowly, to see how
much of its arena each rank uses.

Layouts for which --seconds leave no time are named at the end, and so are those that failed; then
the exit code is 1. No Python packages.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

GIB = 1 << 30


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.end = time.monotonic() + arguments.seconds
        self.sets = []
        for one in ["train.eval_every=0", "train.sample_every=0", "save.model=false", "save.on_exit=false",
                    "train.log_every=1", "schedule.warmup=1"] + arguments.set:
            self.sets += ["--set", one]

    def left(self):
        return self.end - time.monotonic()

    def plan(self):
        """The layouts that fit, as `plimsoll plan --ranks` lists them."""
        command = [self.arguments.plimsoll, "plan", self.arguments.run, "--ranks", str(self.arguments.ranks),
                   "--json"] + self.sets
        out = subprocess.run(command, capture_output=True, text=True, check=False)
        if out.returncode != 0:
            raise SystemExit(out.stderr)
        return [mesh for mesh in json.loads(out.stdout)["meshes"] if mesh.get("fits")]

    def train(self, name, sets, steps, ranks=0, gpu=None):
        """Starts a run of `ranks` ranks, or of a process without mpirun."""
        folder = os.path.join(self.folder, name)
        command = shlex.split(self.arguments.mpirun) + ["-np", str(ranks)] if ranks else []
        command += [self.arguments.plimsoll, "train", self.arguments.run, *self.sets, "--set", f"train.steps={steps}",
                    "--set", f"run.dir={folder}"]
        for one in sets:
            command += ["--set", one]
        environment = dict(os.environ)
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = str(gpu)
        log = open(folder + ".log", "w")
        return folder, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def finish(self, started):
        """The run's summary with the median of its later steps, or None after a line that says why."""
        folder, process = started
        try:
            code = process.wait(max(1, self.left()))
        except subprocess.TimeoutExpired:
            process.kill()
            code = "no time left"
        if code != 0:
            with open(folder + ".log") as log:
                print(f"{os.path.basename(folder)} failed ({code}): {log.read()[-400:]}", flush=True)
            return None
        with open(os.path.join(folder, "summary.json")) as file:
            summary = json.load(file)
        with open(os.path.join(folder, "metrics.jsonl")) as file:
            steps = [row["step_ms"] for row in map(json.loads, file) if "step_ms" in row]
        later = steps[len(steps) // 2:]
        summary |= {"ms": statistics.median(later), "fastest_ms": min(later)}
        summary["rate"] = summary["tokens_per_step"] / summary["ms"] * 1e3
        return summary


def keys_of(mesh):
    return [f"parallel.{key}={mesh[key]}" for key in ("data", "tensor", "zero")]


def name_of(mesh):
    return f"{mesh['data']}x{mesh['tensor']}z{mesh['zero']}"


def amount(bytes_):
    return "-" if bytes_ is None else f"{bytes_ / GIB:.2f}"


def row_of(name, one, used, share):
    planned = one["predicted_step_ms"]
    return (f"{name:>10} {planned:>9.1f} {one['ms']:>9.1f} {one['fastest_ms']:>9.1f} {one['ms'] / planned - 1:>+7.1%} "
            f"{one['rate']:>10.0f} {share:>7} {amount(one['arena_bytes']):>8} {used:>8} "
            f"{amount(one['predicted_process_bytes']):>8} {amount(one['process_bytes']):>8}")


def alone(bench, arguments):
    """The rate of the slowest rank when each trains alone at the same time."""
    sets = ["parallel.data=1", "parallel.tensor=1", "parallel.zero=0", "parallel.sequence=false"]
    runs = [bench.train(f"alone{rank}", sets, arguments.steps, gpu=rank) for rank in range(arguments.ranks)]
    results = [one for one in map(bench.finish, runs) if one]
    if len(results) < arguments.ranks:
        return None
    for rank, one in enumerate(results):
        print(row_of(f"alone {rank}", one, "", ""), flush=True)
    return min(one["rate"] for one in results)


def used_text(bench, name, mesh):
    one = bench.finish(bench.train(name + "-checked", keys_of(mesh) + ["debug.check_arena=true"], 2, bench.arguments.ranks))
    if one is None:
        return "failed"
    return "all" if one["used_bytes"] == one["arena_bytes"] else amount(one["used_bytes"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("run")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--check-arena", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--mpirun", default="mpirun --bind-to none")
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    arguments.plimsoll = os.path.abspath(arguments.plimsoll)
    only = [name for name in arguments.only.split(",") if name]
    results, missing = {}, []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, folder)
        meshes = [mesh for mesh in bench.plan() if not only or name_of(mesh) in only]
        print(f"{'layout':>10} {'planned':>9} {'ms':>9} {'fastest':>9} {'error':>7} {'tokens/s':>10} {'of one':>7} "
              f"{'arena':>8} {'used':>8} {'process':>8} {'used':>8}", flush=True)
        slowest = alone(bench, arguments) if arguments.alone else None
        auto = None
        if arguments.auto:
            auto = bench.finish(bench.train("auto", ["parallel=auto"], arguments.steps, arguments.ranks))
            if auto:
                print(row_of("auto", auto, "", ""), flush=True)
                print(f"           {auto['chosen']}", flush=True)
        for mesh in meshes:
            name = name_of(mesh)
            one = None
            if bench.left() > 10:
                one = bench.finish(bench.train(name, keys_of(mesh), arguments.steps, arguments.ranks))
            if one is None:
                missing.append(name)
                continue
            share = ""
            if slowest and mesh["tensor"] == 1:
                one["of_one"] = one["rate"] / (arguments.ranks * slowest)
                share = f"{one['of_one']:.1%}"
            used = used_text(bench, name, mesh) if arguments.check_arena else ""
            results[name] = one
            print(row_of(name, one, used, share), flush=True)
    if auto and results:
        best = max(results, key=lambda name: results[name]["rate"])
        print(f"auto takes {auto['ms'] / results[best]['ms']:.3f} of the step of the best by hand, {best}", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"auto": auto, "alone": slowest, "layouts": results}, file, indent=1)
    if missing:
        print("missing: " + ", ".join(missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
