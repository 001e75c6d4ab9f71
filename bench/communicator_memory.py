#!/usr/bin/env python3
"""What does a communicator between GPUs cost in memory, and what does saving memory cost in bandwidth?

    python3 bench/communicator_memory.py [--ranks 4] [--program bazel-bin/bench/cuda_communicators]
                                         [--seconds 115] [--only TEXT] [--json FILE]
                                         [--mpirun "mpirun --hostfile hosts"]

Runs bench/cuda_communicators under mpirun for every setting: numbers of channels, and sizes of NCCL's
buffers, which it reads from the environment once. Prints one row per setting, MiB of each GPU and GB/s
of bus bandwidth, and writes all figures to a JSON file. Settings for which --seconds leave no time are
named at the end, and so are those that failed; then the exit code is 1. No Python packages.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
CHANNELS = [0, 1, 2, 4, 8, 16]  # 0: NCCL's choice
BUFFERS = {
    "defaults": {},
    "1M": {"NCCL_BUFFSIZE": 1 << 20},
    "512K": {"NCCL_BUFFSIZE": 512 << 10},
    # The buffers of all three protocols together stay below 2 MiB, the unit in which GPU memory is
    # allocated.
    "1M all": {"NCCL_BUFFSIZE": 1 << 20, "NCCL_LL128_BUFFSIZE": 614400, "NCCL_LL_BUFFSIZE": 256 << 10},
}
SIZES = [("1M", MIB), ("8M", 8 * MIB), ("64M", 64 * MIB), ("256M", 256 * MIB), ("1G", 1024 * MIB)]
CALLS = [("all-reduce", "all_reduce"), ("all-gather", "all_gather"), ("reduce-scatter", "reduce_scatter")]


def settings():
    """(buffers, channels, gather first), what matters most first."""
    for name in BUFFERS:
        for channels in (0, 8, 4):
            yield name, channels, False
    yield "defaults", 0, True
    yield "1M all", 8, True
    for channels in (16, 2, 1):
        for name in BUFFERS:
            yield name, channels, False


def run(arguments, setting, limit):
    """The program's figures, or a text that says why there are none."""
    name, channels, gather_first = setting
    environment = {"NCCL_NVLS_ENABLE": "0"} | {k: str(v) for k, v in BUFFERS[name].items()}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        command = shlex.split(arguments.mpirun) + ["-np", str(arguments.ranks)]
        for variable in environment:
            command += ["-x", variable]
        command += [os.path.abspath(arguments.program), "--channels", str(channels), "--json", path]
        if gather_first:
            command.append("--gather-first")
        try:
            done = subprocess.run(command, env=os.environ | environment, timeout=limit, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        except subprocess.TimeoutExpired:
            return f"no end within {limit:.0f} s"
        if done.returncode != 0:
            return f"exit code {done.returncode}\n{done.stdout[-1500:]}"
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def row(setting, result):
    name, channels, gather_first = setting
    memory = result["memory"]
    columns = [f"{name:>9} {channels or 'auto':>5}"]
    total = memory["made"]
    columns.append(f"{memory['made'] / MIB:6.0f}")
    for call in result["order"]:
        total += memory[call]
        columns.append(f"{memory[call] / MIB:6.0f}")
    columns.append(f"{total / MIB:6.0f} |")
    for part in ("shared_part", "own_part"):
        columns.append(f"{memory[part]['made'] / MIB:6.0f} {memory[part]['used'] / MIB:6.0f}")
    columns.append("|")
    for _, call in CALLS:
        bandwidth = {timing["bytes"]: timing["bus_bytes_per_second"] for timing in result["calls"][call]}
        columns += [f"{bandwidth[size] / 1e9:5.0f}" for _, size in SIZES]
        columns.append("|")
    if gather_first:
        columns.append("all-gather and reduce-scatter first, then all-reduce")
    return " ".join(columns)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", default="bazel-bin/bench/cuda_communicators")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=115, help="start no setting that would end later")
    parser.add_argument("--only", default="", help="buffer settings whose name contains this")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--json")
    arguments = parser.parse_args()

    start = time.monotonic()
    results, failed, left_out, longest = [], [], [], 0.0
    print("MiB of each GPU: a communicator when made, at the first all-reduce, all-gather, reduce-scatter, "
          "send; all;\na part of two ranks sharing its buffers, one with its own (made, used). Bus bandwidth, "
          "GB/s, of " + ", ".join(name for name, _ in CALLS) + ":\n")
    sizes = " ".join(f"{name:>5}" for name, _ in SIZES)
    print(f"  buffers  chan.   made reduce gather scattr   send    all |  shared-part    own-part   | "
          + " | ".join([sizes] * len(CALLS)) + " |", flush=True)
    for setting in settings():
        if arguments.only not in setting[0]:
            continue
        now = time.monotonic()
        left = arguments.seconds - (now - start)
        if left < longest:
            left_out.append(setting)
            continue
        result = run(arguments, setting, min(30, left))
        longest = max(longest, time.monotonic() - now)
        if isinstance(result, str):
            failed.append((setting, result))
            continue
        print(row(setting, result), flush=True)
        results.append(result | {"buffers": setting[0], "environment": BUFFERS[setting[0]]})
    print(f"\n{len(results)} settings in {time.monotonic() - start:.0f} s")
    if results:
        print(f"{results[0]['ranks']} × {results[0]['gpu']}, NCCL {results[0]['nccl']}")
    for setting in left_out:
        print("no time left for", *setting)
    for setting, why in failed:
        print("FAILED", *setting, why)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    return 1 if failed or left_out or not results else 0


if __name__ == "__main__":
    sys.exit(main())
