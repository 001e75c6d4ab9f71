#!/usr/bin/env python3
"""Does memory.budget hold for the whole process on a GPU, and what does a byte cost?

    python3 bench/budget_sweep.py PLIMSOLL RUN.yaml [--budgets 10] [--steps 12] [--set KEY=VALUE …]
                                  [--leave 24GiB] [--json FILE]

Asks `plimsoll plan --sweep` for budgets between the fastest plan and the smallest, trains some steps
under each, kills the run, and prints per budget: what the plan predicts for the process, the most
that the driver counted for it (asked every few milliseconds from its start to its end), the predicted
and the measured time of a step. With --leave another process holds all but so much of the card
meanwhile.

Exit code 1 when a law is broken: more than the budget was used; the highest use is further from the
prediction than 1 % and 100 MiB; a greater budget gives a step that is over 3 % slower; the card's
memory is not back at its earlier value at the end.

Needs a GPU, its driver and a PLIMSOLL built with --config=cuda. No Python packages.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
GIB = 1 << 30


class Nvml:
    """What the driver counts on the first GPU."""

    class _Memory(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                    ("used", ctypes.c_ulonglong)]

    class _Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong),
                    ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]

    def __init__(self):
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._check(self._library.nvmlInit_v2())
        self._device = ctypes.c_void_p()
        self._check(self._library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._device)))

    @staticmethod
    def _check(status):
        if status != 0:
            raise SystemExit(f"the NVIDIA driver answers with error {status}")

    def memory(self):
        memory = self._Memory()
        self._check(self._library.nvmlDeviceGetMemoryInfo(self._device, ctypes.byref(memory)))
        return memory

    def bytes_of(self, pid):
        processes = (self._Process * 64)()
        count = ctypes.c_uint(64)
        status = self._library.nvmlDeviceGetComputeRunningProcesses_v3(
            self._device, ctypes.byref(count), processes)
        if status != 0:
            return 0
        return sum(p.bytes for p in processes[:count.value] if p.pid == pid)


class Holder:
    """Another process that holds all but `leave` bytes of the card."""

    _PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcudart.so")
leave, free, total, data = int(sys.argv[1]), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
assert cuda.cudaFree(0) == 0
assert cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
size = free.value - leave
assert cuda.cudaMalloc(ctypes.byref(data), ctypes.c_size_t(size)) == 0
print(size, flush=True)
sys.stdin.read()
"""

    def __init__(self, leave):
        self._process = subprocess.Popen([sys.executable, "-c", self._PROGRAM, str(leave)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.bytes = int(self._process.stdout.readline())

    def end(self):
        self._process.stdin.close()
        self._process.wait()


def read_steps(path):
    """The rows of metrics.jsonl that are complete and about steps."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        rows = [json.loads(line) for line in file if line.endswith("\n")]
    return [row for row in rows if "step_ms" in row]


def run_watched(nvml, command, log, metrics, steps):
    """Runs the command until it has done that many steps; returns whether it did, and the most bytes
    that it held."""
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        highest = polls = 0
        while process.poll() is None:
            highest = max(highest, nvml.bytes_of(process.pid))
            time.sleep(0.002)
            polls += 1
            if polls % 20 == 0 and len(read_steps(metrics)) >= steps:
                process.kill()
                process.wait()
    return len(read_steps(metrics)) >= steps, highest


def parse_bytes(text):
    for unit, size in (("GiB", GIB), ("MiB", MIB)):
        if text.endswith(unit):
            return int(float(text[:-len(unit)]) * size)
    return int(text)


def gib(size):
    return f"{size / GIB:8.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("run")
    parser.add_argument("--budgets", type=int, default=10)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--leave", help="bytes that another process leaves free: 24GiB")
    parser.add_argument("--json", help="file for the rows")
    arguments = parser.parse_args()

    nvml = Nvml()
    used_before = nvml.memory().used
    sets = []
    for value in arguments.sets + ["device=cuda"]:
        sets += ["--set", value]
    plan = [arguments.plimsoll, "plan", arguments.run, "--json"] + sets
    start = time.time()
    answer = subprocess.run(plan + ["--sweep", str(arguments.budgets)], stdout=subprocess.PIPE,
                            text=True, check=True)
    front = json.loads(answer.stdout)["front"]
    print(f"{len(front)} budgets found in {time.time() - start:.1f} s")
    holder = Holder(parse_bytes(arguments.leave)) if arguments.leave else None
    if holder:
        print(f"another process holds {gib(holder.bytes).strip()} GiB")
        limit = parse_bytes(arguments.leave)
        front = [row for row in front if row["budget_bytes"] <= limit]

    rows, broken = [], []
    print("     budget  planned  highest   off MiB    arena  predicted ms  measured ms    ratio")
    for row in front:
        budget = row["budget_bytes"]
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            log = os.path.join(folder, "log")
            command = [arguments.plimsoll, "train", arguments.run] + sets
            for value in [f"memory.budget={budget}", "checkpointing.policy=auto",
                          "train.steps=100000", f"run.dir={run}", "train.log_every=1",
                          "memory.summary=false"]:
                command += ["--set", value]
            metrics = os.path.join(run, "metrics.jsonl")
            done, highest = run_watched(nvml, command, log, metrics, arguments.steps)
            if not done:
                with open(log) as file:
                    print(file.read()[-2000:])
                broken.append(f"budget {gib(budget)} GiB: the run failed")
                continue
            with open(os.path.join(run, "plan.json")) as file:
                plan = json.load(file)
            steps = read_steps(metrics)
        measured = statistics.median(step["step_ms"] for step in steps[3:])
        planned = plan["process_bytes"]
        predicted = plan["predicted_step_ms"]
        rows.append({"budget_bytes": budget, "planned_bytes": planned, "highest_bytes": highest,
                     "arena_bytes": plan["arena_bytes"], "predicted_ms": predicted,
                     "measured_ms": measured, "gpu_bytes": steps[-1].get("gpu_bytes")})
        print(f"   {gib(budget)} {gib(planned)} {gib(highest)} {(highest - planned) / MIB:9.1f} "
              f"{gib(plan['arena_bytes'])}  {predicted:12.2f} {measured:12.2f} "
              f"{measured / predicted:8.3f}", flush=True)
        if highest > budget:
            broken.append(f"budget {gib(budget)} GiB: {gib(highest)} GiB were used")
        if abs(highest - planned) > max(planned / 100, 100 * MIB):
            broken.append(f"budget {gib(budget)} GiB: far from what was planned")
    for tighter, roomier in ((a, b) for i, b in enumerate(rows) for a in rows[i + 1:]):
        if roomier["measured_ms"] > 1.03 * tighter["measured_ms"]:
            broken.append(f"budget {gib(roomier['budget_bytes'])} GiB is slower than "
                          f"{gib(tighter['budget_bytes'])} GiB")
    if holder:
        holder.end()
    time.sleep(0.5)
    left = nvml.memory().used - used_before
    print(f"memory in use at the end against the start: {left / MIB:+.1f} MiB")
    if left > 16 * MIB:
        broken.append("the card's memory is not back at its earlier value")
    for line in broken:
        print("BROKEN:", line)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"rows": rows, "broken": broken}, file, indent=1)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
