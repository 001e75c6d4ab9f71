#!/usr/bin/env python3
"""Do two builds of plimsoll make the same programs and plans?

  python3 bench/compare_plans.py OLD NEW [--only SUBSTRING] [--jobs N]

OLD and NEW are paths of plimsoll. Every file of configs/ that describes a run is planned by both, as it is and
changed as CASES says: for a GPU, in 16 bits, over several ranks, with accumulation, within a budget. Compared are
every program as it will run, in a normal form (`normal_form`), and all of `plan --json` but times that planning
itself took. A line is printed for each case that differs, and a summary with the seconds that both took and the
number of programs whose texts differ in names and annotations alone; ends with 1 when a case differs.

A change that shall not touch plans is proven by "0 differ". One that shall is committed with what this prints.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent

# A name and keys for each case. In values, {arena} is the file's own arena in bytes, on the CPU.
CASES = {
    "as it is": {},
    "cpu": {"device": "cpu"},
    "h200": {"device": "h200"},
    "h200, bf16": {"device": "h200", "amp.dtype": "bf16", "train.accumulate": 1},
    "h200, fp16, 3 micro-steps": {"device": "h200", "amp.dtype": "fp16", "train.accumulate": 3},
    "block": {"device": "h200", "amp.dtype": "bf16", "checkpointing.policy": "block"},
    "selective": {"device": "h200", "amp.dtype": "bf16", "checkpointing.policy": "selective"},
    "zero 1": {"device": "h200", "amp.dtype": "bf16", "parallel.data": 2, "parallel.zero": 1},
    "zero 2, 2 micro-steps": {"device": "h200", "amp.dtype": "bf16", "parallel.data": 2, "parallel.zero": 2,
                              "train.accumulate": 2},
    "zero 3": {"device": "h200", "amp.dtype": "bf16", "parallel.data": 2, "parallel.zero": 3},
    "tensor 2": {"device": "h200", "amp.dtype": "bf16", "parallel.tensor": 2},
    "tensor 2 x zero 3, sequence": {"device": "h200", "parallel.data": 2, "parallel.tensor": 2, "parallel.zero": 3,
                                    "parallel.sequence": True},
    "budget of 80 %": {"device": "cpu", "checkpointing.policy": "auto", "memory.budget": "{arena}*0.8"},
    "budget of 60 %, 2 ranks": {"device": "cpu", "checkpointing.policy": "auto", "parallel.data": 2,
                                "parallel.zero": 3, "memory.budget": "{arena}*0.6"},
    "zero 3, 3 micro-steps": {"device": "h200", "amp.dtype": "bf16", "parallel.data": 2, "parallel.zero": 3,
                              "train.accumulate": 3},
    "lora": {"device": "h200", "amp.dtype": "bf16", "lora.rank": 8},
    "fp8": {"device": "h200", "amp.dtype": "bf16", "amp.fp8.recipe": "current", "train.accumulate": 2},
    "averages": {"device": "h200", "amp.dtype": "bf16", "optimizer.ema": 0.99},
    "updates in the backward pass": {"device": "h200", "amp.dtype": "bf16", "optimizer.in_backward": True,
                                     "optimizer.clip_grad_norm": 0},
    "all on the host, 3 micro-steps": {"device": "h200", "amp.dtype": "bf16", "train.accumulate": 3,
                                       "optimizer.place": "host", "memory.weights": "host",
                                       "memory.gradients": "host"},
    "blocks first, 3 micro-steps": {"device": "h200", "amp.dtype": "bf16", "train.accumulate": 3,
                                    "train.blocks_first": True},
    "offload within 60 %": {"device": "h200", "amp.dtype": "bf16", "checkpointing.policy": "auto",
                            "checkpointing.offload": ["*"], "memory.budget": "{arena}*0.6 + 1 GiB"},
}


# Of a plan: whose it is, and keys that name the case's own folder.
NOT_COMPARED = ("version", "config", "given")


def run_files():
    for folder in ("", "models", "bench", "techniques"):
        yield from sorted((REPOSITORY / "configs" / folder).glob("*.yaml"))


def without_names(text):
    """Messages without the temporary folder's name."""
    return re.sub(r"/tmp/[^\s:]*", "TMP", text)


def without_empty_roles(value):
    """A plan without the roles that no tensor has: builds may know different roles."""
    if isinstance(value, list):
        return [without_empty_roles(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {key: {role: bytes_ for role, bytes_ in held.items() if bytes_} if key == "bytes_by_role"
            else without_empty_roles(held) for key, held in value.items()}


PROGRAM_TENSOR = re.compile(r"  tensor (%\S+): (\S+)(.*)")
OWNER = re.compile(r" of %\S+ as \w+")
NODE = re.compile(r"  (.*?) = (\w+)\((.*?)\)( \{.*\})?( using .*?)?(?: [@!].*)?")


def normal_form(text):
    """What a program computes: types of tensors, ops in their order, attributes and edges, places. Tensors that
    outlive the program keep their names, others are numbered as they appear. Scopes, phases, authors and what
    tensors are to one another are gone."""
    numbers = {}

    def normal(tensors):
        return re.sub(r"%[^\s,:+]+", lambda name: numbers.setdefault(name[0], f"%{len(numbers)}"), tensors)

    lines = []
    for line in text.splitlines():
        if tensor := PROGRAM_TENSOR.fullmatch(line):
            name, kind, more = tensor.groups()
            if " persistent" in more:
                numbers[name] = name
            lines.append(f"{normal(name)}: {kind}{' host' if more.endswith(' host') else ''}")
        elif node := NODE.fullmatch(line):
            outputs, op, inputs, attributes, scratch = node.groups()
            outputs = OWNER.sub("", outputs)
            lines.append(f"{normal(outputs)} = {op}({normal(inputs)}){attributes or ''}{normal(scratch or '')}")
    return "\n".join(lines)


def plan(binary, file, keys, folder):
    """What a build makes of a case: a mapping from what to text, and seconds."""
    keys = dict(keys)
    device = keys.pop("device", None)
    command = [binary, "plan", str(file), "--json", "--set", f"debug.dump_programs={folder}",
               "--set", "memory.calibrate=false"]
    if device is not None:
        command += ["--device", device]
    for key, value in keys.items():
        command += ["--set", f"{key}={json.dumps(value) if not isinstance(value, str) else value}"]
    environment = dict(os.environ, XDG_CACHE_HOME=folder + "/cache", HOME=folder)
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=environment, check=False)
    seconds = time.monotonic() - start
    # Progress depends on the speed of the machine.
    said = [line for line in done.stderr.strip().splitlines() if not line.endswith("…")]
    last_line = (said or [""])[-1]
    made = {"messages": without_names(last_line) if done.returncode != 0 else "", "exit": str(done.returncode)}
    if done.stdout:  # also of a plan that is too large for its GPU
        for key, value in without_empty_roles(json.loads(done.stdout)).items():
            if key not in NOT_COMPARED:
                made[key] = json.dumps(value)
    last = {}
    for dump in sorted(pathlib.Path(folder).glob("*.txt")):
        last[dump.name.split(".")[0]] = dump
    for program, dump in last.items():
        text = dump.read_text()
        made["program " + program] = normal_form(text)
        made["text of " + program] = text
    return made, seconds


def compare(old, new, file, name, keys, arena):
    def budget(match):
        return str(int(arena * float(match[1])) + int(match[2] or 0) * 2**30)

    keys = {key: re.sub(r"\{arena\}\*([\d.]+)(?: \+ (\d+) GiB)?", budget, value) if isinstance(value, str) else value
            for key, value in keys.items()}
    results = []
    for binary in (old, new):
        with tempfile.TemporaryDirectory() as folder:
            results.append(plan(binary, file, keys, folder))
    (before, old_seconds), (after, new_seconds) = results
    differing = [what for what in sorted({*before, *after}) if before.get(what) != after.get(what)]
    texts = sum(what.startswith("text of ") for what in differing)
    differing = [what for what in differing if not what.startswith("text of ")]
    texts -= sum(what.startswith("program ") for what in differing)
    shown = [f"{what} {before[what]} -> {after[what]}" if len(before.get(what, "")) + len(after.get(what, "")) < 60
             and what in before and what in after else what for what in differing]
    return file.relative_to(REPOSITORY / "configs"), name, shown, texts, old_seconds, new_seconds, before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", default="", help="cases whose file and name contain this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--verbose", action="store_true", help="a line for each case, with why one is refused")
    arguments = parser.parse_args()
    old, new = (str(pathlib.Path(binary).resolve()) for binary in (arguments.old, arguments.new))

    jobs = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for file in run_files():
            label = file.relative_to(REPOSITORY / "configs")
            wanted = [name for name in CASES if arguments.only in f"{label} {name}"]
            if not wanted:
                continue
            with tempfile.TemporaryDirectory() as folder:
                made, _ = plan(old, file, {"device": "cpu"}, folder)
            arena = int(made.get("arena_bytes", 0))
            jobs += [pool.submit(compare, old, new, file, name, CASES[name], arena) for name in wanted]
        differ = refused = texts_alone = 0
        seconds = [0.0, 0.0]
        for job in jobs:
            file, name, shown, texts, old_seconds, new_seconds, before = job.result()
            texts_alone += texts
            seconds = [seconds[0] + old_seconds, seconds[1] + new_seconds]
            refused += before["exit"] != "0"
            if arguments.verbose:
                print(f"{file}, {name}: {old_seconds:.2f} s, {new_seconds:.2f} s; "
                      f"{before['messages'].strip() if before['exit'] != '0' else before['arena_bytes']}", flush=True)
            if shown:
                differ += 1
                print(f"{file}, {name}: {'; '.join(shown)}", flush=True)
    print(f"{len(jobs)} cases, {refused} of them refused; {differ} differ; "
          f"{texts_alone} programs differ in names and annotations alone; {seconds[0]:.1f} s and {seconds[1]:.1f} s")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
