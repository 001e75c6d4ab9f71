#!/usr/bin/env python3
"""Finds the largest batch with which the process of a command fits so much GPU memory.

    bench/largest_batch.py 8GiB [--step 64] [--from 4096] -- COMMAND … BATCH …

Runs the command with numbers for BATCH in its arguments, always multiples of --step: from --from on by
growing strides until one fits and one does not, then by halves. The command prints a line of JSON with
process_bytes; where it fails, as by lack of memory, the batch does not fit. Prints each batch to
stderr, and at the end the largest one with its JSON.
"""
import argparse
import json
import re
import subprocess
import sys

UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


def run(command, batch):
    """The last JSON that the command prints, or None where it fails."""
    done = subprocess.run([part.replace("BATCH", str(batch)) for part in command],
                          capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        reason = (done.stderr.strip().splitlines() or ["no JSON"])[-1]
        print(f"  {batch}: {reason[:160]}", file=sys.stderr)
        return None
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("limit")
    parser.add_argument("--step", type=int, default=64)
    parser.add_argument("--from", type=int, default=1024, dest="start")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, command = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1:]
    amount = re.fullmatch(r"([\d.]+)(MiB|GiB)", args.limit)
    if not amount:
        parser.error("give the limit as 8GiB or 512MiB")
    limit = float(amount[1]) * UNITS[amount[2]]
    if "BATCH" not in " ".join(command):
        parser.error("no BATCH in a command behind --")

    best = {}

    def fits(steps):
        result = run(command, steps * args.step)
        if result is None:
            return False
        bytes_ = result["process_bytes"]
        if bytes_ is None:
            sys.exit("the command does not know what its process holds")
        print(f"  {steps * args.step}: {bytes_ / (1 << 30):.3f} GiB, {result['step_ms']} ms", file=sys.stderr)
        if bytes_ > limit:
            return False
        best[steps] = result
        return True

    low, stride = max(1, args.start // args.step), 1
    if fits(low):
        while fits(low + stride):
            low, stride = low + stride, 2 * stride
        high = low + stride
    else:
        high = low
        while high - stride > 0 and not fits(high - stride):
            high, stride = high - stride, 2 * stride
        low = max(0, high - stride)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low not in best:
        sys.exit(f"not even {args.step} fit {args.limit}")
    print(json.dumps({"batch": low * args.step} | best[low]))


if __name__ == "__main__":
    main()
