#!/usr/bin/env python3
"""Do the plans of configs/bench still take the bytes and the time that configs/bench/plans.json says?

  python3 bench/plan_baseline.py PLIMSOLL            prints what differs, and ends with 1 if anything does
  python3 bench/plan_baseline.py PLIMSOLL --write    changes the baseline, where that is meant

Every file of configs/bench is planned for an NVIDIA H200 by built-in rates, which needs no GPU, and compared with its
entry by `plan --diff`. Bytes must be the same, and the predicted time within 0.1 % (compilers round differently). A
plan that got smaller or faster differs, too: the baseline is to say so.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).absolute().parent.parent
BASELINE = REPOSITORY / "configs/bench/plans.json"
# What an entry has of the plan: what a change of the program is judged by.
MEMBERS = ("arena_bytes", "host_arena_bytes", "host_input_bytes", "bytes_by_role", "predicted_step_ms")
TIME_TOLERANCE = 1e-3


def run_files():
    return sorted((REPOSITORY / "configs/bench").glob("*.yaml"))


def plan(program, file, *arguments):
    """What `plimsoll plan` prints, on any machine the same: without what was measured on this one."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run([program, "plan", file.relative_to(REPOSITORY), "--device", "h200",
                               "--set", "memory.calibrate=false", *arguments],
                              capture_output=True, text=True, check=False, cwd=REPOSITORY,
                              env=dict(os.environ, HOME=home, XDG_CACHE_HOME=home))
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout


def entry_of(program, file):
    made = json.loads(plan(program, file, "--json"))
    entry = {member: made[member] for member in MEMBERS}
    entry["bytes_by_role"] = {role: held for role, held in entry["bytes_by_role"].items() if held}
    entry["predicted_step_ms"] = round(entry["predicted_step_ms"], 4)
    return entry


def difference(program, file, entry):
    """In words what changes from an entry; empty: nothing that counts."""
    with tempfile.TemporaryDirectory() as folder:
        old = pathlib.Path(folder, file.name).with_suffix(".json")
        old.write_text(json.dumps(entry))
        found = json.loads(plan(program, file, "--diff", old, "--json"))
        bytes_differ = found["bytes_by_role"] or any(
            found[member]["old"] != found[member]["new"] for member in ("arena_bytes", "host_bytes"))
        if not bytes_differ and abs(found["predicted_step_ms"]["growth"] or 0) <= TIME_TOLERANCE:
            return ""
        return plan(program, file, "--diff", old).replace(str(old), "the baseline")


def text_of(entries):
    """One line for each member of an entry, so that a change of the file is read at a glance."""
    parts = []
    for name, entry in entries.items():
        lines = ",\n".join(f"  {json.dumps(member)}: {json.dumps(value)}" for member, value in entry.items())
        parts.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def differences(program, baseline):
    """Of all files, and of entries without a file: (name, words)."""
    names = {file.stem for file in run_files()}
    for name in baseline:
        if name not in names:
            yield name, "the baseline has an entry for it, and there is no such file in configs/bench\n"
    for file in run_files():
        if file.stem not in baseline:
            yield file.stem, "the baseline has no entry for it\n"
        elif words := difference(program, file, baseline[file.stem]):
            yield file.stem, words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("--write", action="store_true", help="write the baseline instead of comparing with it")
    arguments = parser.parse_args()
    program = pathlib.Path(arguments.plimsoll).resolve()
    if arguments.write:
        BASELINE.write_text(text_of({file.stem: entry_of(program, file) for file in run_files()}))
        return 0
    differs = False
    for name, words in differences(program, json.loads(BASELINE.read_text())):
        differs = True
        print(f"configs/bench/{name}.yaml\n{words}", flush=True)
    if differs:
        print(f"If this is meant: python3 bench/plan_baseline.py {arguments.plimsoll} --write")
    return 1 if differs else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as problem:
        sys.exit(str(problem))
