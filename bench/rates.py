#!/usr/bin/env python3
"""Fits the built-in rates of a GPU (memory/h200_rates.cc) to calibration files, and says how well they predict steps.

  python3 bench/rates.py FOLDER --calls STEP_CALLS --hold-out NAME,…    writes the rates and tests/memory/h200_steps.json
  python3 bench/rates.py FOLDER --calls STEP_CALLS --hold-out NAME,… --table    prints what this build predicts of the runs

FOLDER holds runs of `plimsoll train` on one card. Its list.txt has a line for each: a name, a run file, and the keys that
--set gave. NAME.json is the calibration file that the run wrote, or on the same card `plimsoll plan` of it; measured.json has
the card, the date, and under measured_ms the milliseconds of each run's step. STEP_CALLS is bench:step_calls of this build;
after the first form it is to be built again, for the second.

With --portable all runs had debug.act_as=8.0. Written are memory/portable_rates.cc, which has only those kinds that have
kernels for Hopper, and tests/memory/portable_steps.json. Of these only FLOP/s are fitted: starts and bytes a second are those
of memory/h200_rates.cc. The factors are fitted to what the other kinds leave of the steps.

A call of a kind takes start + FLOPs / F + bytes / B seconds (memory/kind_rates.h). These three are fitted to the times
of single calls, by least squares of relative errors; a call counts as much as it takes of the steps. A kind with few calls
stays near its op as a whole. Then each class of ops gets one factor, by the measured steps: within a step caches are
warmer than where calls are timed, each alone. Of runs that are held out, neither calls nor steps are used, nor, where the op
was timed elsewhere, calls of other runs with the same shapes.
"""

import argparse
import itertools
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).absolute().parent.parent
PORTABLE = "debug.act_as=8.0"

# Of an H200: FLOP/s by numbers, and bytes a second. No fitted rate is above.
PEAK_FLOPS = {"half": 989e12, "tf32": 494e12, "fp32": 67e12, "fp8": 1979e12}
PEAK_BYTES = 4.8e12
LEAST_START, MOST_START = 1e-6, 30e-6
# What a fit starts from: start, seconds a FLOP by class, seconds a byte.
USUAL_START, USUAL_BYTES = 2e-6, 3.6e12
USUAL_SHARE = {"products": 0.6, "attention": 0.35}  # of the peak FLOP/s
LEAST_SHARE = 1e-3  # times that a call is made in a millisecond of steps, of one that is in none
PRIOR_WEIGHT = 0.03  # next to all calls of a kind together
# Deviations: of a class's factor from 1, of microseconds that launches take more from 0, and of a step from its
# prediction.
FACTOR_DEVIATION, START_DEVIATION, STEP_DEVIATION = 0.05, 0.5, 0.015
MOST_OTHERS = 0.03  # of a step: one that waits longer for copies says little of ops


class Run:
    """One run: its command, what the card measured, and the calls of its step by this build."""

    def __init__(self, folder, line, measured, held_out):
        self.name, self.file, *self.sets = line.split()
        self.held_out = self.name in held_out
        calibration = json.loads((folder / f"{self.name}.json").read_text())
        self.card, self.timed = calibration["device"], calibration["points"]
        self.measured_ms = measured.get(self.name)  # None: only its calls were timed
        self.calls, self.predicted_ms = {}, 0.0

    def ask(self, program):
        sets = [word for value in self.sets for word in ("--set", value)]
        done = subprocess.run([program, self.file, *sets], capture_output=True, text=True, check=False, cwd=REPOSITORY)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: {done.stderr}")
        answer = json.loads(done.stdout)
        self.calls, self.predicted_ms = answer["calls"], answer["predicted_ms"]

    @property
    def shipped(self):
        return self.file.startswith("configs/bench/") and set(self.sets) <= {PORTABLE}


def read_runs(folder, held_out):
    """All runs, and the date of their steps."""
    measured = json.loads((folder / "measured.json").read_text())
    lines = (folder / "list.txt").read_text().splitlines()
    runs = [Run(folder, line, measured["measured_ms"], held_out) for line in lines if line.strip()]
    missing = held_out - {run.name for run in runs}
    if missing:
        raise RuntimeError(f"no such runs: {', '.join(sorted(missing))}")
    return runs, measured["date"]


# Fits


def solve(matrix, vector):
    """Gaussian elimination of a small positive definite system."""
    size = len(vector)
    rows = [[*matrix[i], vector[i]] for i in range(size)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(size):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[i])]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def bounded_least_squares(rows, targets, weights, lowest):
    """x that minimizes Σ weight · (row · x − target)² where x ≥ lowest: the best over all sets of x at their bound."""
    size = len(lowest)
    gram = [[sum(w * r[i] * r[j] for w, r in zip(weights, rows)) for j in range(size)] for i in range(size)]
    right = [sum(w * r[i] * t for w, r, t in zip(weights, rows, targets)) for i in range(size)]

    def loss(x):
        return sum(w * (sum(a * b for a, b in zip(r, x)) - t) ** 2 for w, r, t in zip(weights, rows, targets))

    best = list(lowest)
    for free in itertools.chain.from_iterable(itertools.combinations(range(size), n) for n in range(1, size + 1)):
        fixed = [i for i in range(size) if i not in free]
        part = solve([[gram[i][j] for j in free] for i in free],
                     [right[i] - sum(gram[i][j] * lowest[j] for j in fixed) for i in free])
        x = list(lowest)
        for i, value in zip(free, part):
            x[i] = value
        if all(value >= least for value, least in zip(x, lowest)) and loss(x) < loss(best):
            best = x
    return best


class Point:
    """A timed call."""

    def __init__(self, call, seconds, weight):
        self.call, self.seconds, self.weight = call, seconds, weight
        self.kind = (call["op"], call["numbers"])
        self.work = (0.0 if call["shares_launches"] else 1.0, call["flops"], call["bytes"])

    def relative(self):
        return [x / self.seconds for x in self.work]


def lowest_of(call):
    """Bounds of start, seconds a FLOP and seconds a byte."""
    if call["class"] == "bandwidth":
        return [LEAST_START, 0.0, 1 / PEAK_BYTES]
    return [LEAST_START, 1 / PEAK_FLOPS[call["numbers"]], 0.5 / PEAK_BYTES]


def usual(call):
    if call["class"] == "bandwidth":
        return [USUAL_START, 0.0, 1 / USUAL_BYTES]
    return [USUAL_START, 1 / (USUAL_SHARE[call["class"]] * PEAK_FLOPS[call["numbers"]]), 1 / USUAL_BYTES]


def fit_with(points, prior, used, start):
    """The parts `used` of a rate, where the others are 0 but a start that is given."""
    rows = [[point.relative()[i] for i in used] for point in points]
    targets = [1.0 - start * point.relative()[0] for point in points]
    weights = [point.weight for point in points]
    total = sum(weights)
    for at, i in enumerate(used):  # the prior: each part as if seen once more
        size = sum(w * r[at] for w, r in zip(weights, rows)) / total
        rows.append([size if j == at else 0.0 for j in range(len(used))])
        targets.append(size * prior[i])
        weights.append(PRIOR_WEIGHT * total)
    lowest = lowest_of(points[0].call)
    rate = [start, 0.0, 0.0]
    for i, value in zip(used, bounded_least_squares(rows, targets, weights, [lowest[i] for i in used])):
        rate[i] = value
    return rate


def fit(points, prior):
    """start, seconds a FLOP and seconds a byte of a kind."""
    call = points[0].call
    work = [2] if call["class"] == "bandwidth" else [1, 2]
    if not call["shares_launches"] and all(
            p.call["flops"] * prior[1] + p.call["bytes"] * prior[2] < USUAL_START for p in points):
        # Over as soon as they have begun, they tell the start alone.
        begun = statistics.median(p.seconds - seconds_of([0.0, *prior[1:]], p.call) for p in points)
        return [min(max(begun, LEAST_START), MOST_START), *prior[1:]]
    if call["shares_launches"]:
        rate = fit_with(points, prior, work, 0.0)
    else:
        rate = fit_with(points, prior, [0, *work], 0.0)
        if rate[0] > MOST_START:
            rate = fit_with(points, prior, work, MOST_START)
    # Least squares of relative errors end low: all calls together shall take as long as measured.
    low = sum(p.weight * seconds_of(rate, p.call) / p.seconds for p in points) / sum(p.weight for p in points)
    return [x / low for x in rate]


def seconds_of(rate, call):
    start = 0.0 if call["shares_launches"] else rate[0]
    return start + call["flops"] * rate[1] + call["bytes"] * rate[2]


def points_of(runs, calls):
    """Timed calls of runs that are not held out, each signature once."""
    not_used = {point["signature"] for run in runs if run.held_out for point in run.timed}
    times, shares = {}, {}
    for run in runs:
        if run.held_out:
            continue
        for point in run.timed:
            times.setdefault(point["signature"], []).append(point["seconds"])
        for signature, call in run.calls.items():
            if run.measured_ms is not None:
                shares[signature] = shares.get(signature, 0.0) + call["times"] / run.measured_ms
    points, shared = [], []
    for signature in sorted(times.keys() & calls.keys()):
        seconds = statistics.median(times[signature])
        call = calls[signature]
        # A small call that shares a launch takes its launch here, and only its bytes in a step.
        part = call["bytes"] / PEAK_BYTES if call["shares_launches"] else seconds
        point = Point(call, seconds, 1e3 * part * (LEAST_SHARE + shares.get(signature, 0.0)))
        (shared if signature in not_used else points).append(point)
    kinds = {point.kind for point in points}
    return points + [point for point in shared if point.kind not in kinds]


def fit_flops(points, rate):
    """That rate with seconds a FLOP by least squares of relative errors."""
    start, _, byte = rate
    rest = [(p.weight, p.call["flops"] / p.seconds, 1 - seconds_of([start, 0.0, byte], p.call) / p.seconds) for p in points]
    return [start, sum(w * f * t for w, f, t in rest) / sum(w * f * f for w, f, _ in rest), byte]


def written_rates(name):
    """Those of memory/NAME_rates.cc."""
    row = re.compile(r'{{"(.*?)", "(.*?)", "(.*?)"}, (\S+), (\S+), (\S+)}')
    for op, numbers, form, *rate in row.findall((REPOSITORY / f"memory/{name}_rates.cc").read_text()):
        start, flops, bytes_ = (float(x.replace("kFreeFlops", "inf")) for x in rate)
        yield (op, numbers, form), [start, 1 / flops, 1 / bytes_]


def fit_kinds(points, known):
    """From (op, numbers, form) to a rate; an empty form is all of them. Of `known` kinds FLOP/s alone are fitted."""
    by_op, rates = {}, {}
    for point in points:
        by_op.setdefault(point.kind, []).append(point)
    for (op, numbers), all_forms in sorted(by_op.items()):
        for form in sorted({"", *(point.call["form"] for point in all_forms)}):
            of_form = [point for point in all_forms if form in ("", point.call["form"])]
            kind = (op, numbers, form)
            prior = usual(of_form[0].call) if form == "" else rates[op, numbers, ""]
            rates[kind] = fit_flops(of_form, known[kind]) if kind in known else fit(of_form, prior)
    return rates


def rate_of(rates, call):
    for form in (call["form"], ""):
        rate = rates.get((call["op"], call["numbers"], form))
        if rate is not None:
            return rate
    if call["class"] != "bandwidth":
        return None
    return next((rates[kind] for kind in sorted(rates) if kind[0] == call["op"]), None)


def factor_class(call):
    if call["op"].startswith("conv"):
        return "convolutions"
    if call["op"].startswith("batch_norm"):
        return "batch norms"
    if call["shares_launches"]:
        return "updates"
    return "large products" if "large" in call["form"] else call["class"]


def parts_of(rates, run):
    """Milliseconds of a step by class; "others": calls without a fitted rate, and copies that are waited for; "start":
    a microsecond for each launch."""
    parts = {"others": run.predicted_ms, "start": 0.0}
    for call in run.calls.values():
        times, predicted = call["times"], 1e-3 * call["times"] * call["predicted_us"]
        parts["others"] -= predicted
        rate = rate_of(rates, call)
        if rate is None:
            parts["others"] += predicted
            continue
        name = factor_class(call)
        parts[name] = parts.get(name, 0.0) + 1e3 * times * seconds_of(rate, call)
        parts["start"] += 0.0 if call["shares_launches"] else 1e-3 * times
    return parts


def fit_factors(rates, runs, most_others):
    """By class, so that the parts of each step sum up to the measured one; "start": microseconds more for each launch."""
    fitted = [(run, parts_of(rates, run)) for run in runs if not run.held_out and run.measured_ms is not None]
    fitted = [(run, parts) for run, parts in fitted if abs(parts["others"]) < most_others * run.measured_ms]
    names = sorted({name for _, parts in fitted for name in parts} - {"others"})
    rows, targets, weights = [], [], []
    for run, parts in fitted:
        rows.append([parts.get(name, 0.0) / run.measured_ms for name in names])
        targets.append(1 - parts["others"] / run.measured_ms)
        weights.append(STEP_DEVIATION ** -2)
    for i, name in enumerate(names):
        rows.append([1.0 if i == j else 0.0 for j in range(len(names))])
        targets.append(0.0 if name == "start" else 1.0)
        weights.append((START_DEVIATION if name == "start" else FACTOR_DEVIATION) ** -2)
    lowest = [0.0 if name == "start" else 0.5 for name in names]
    return dict(zip(names, bounded_least_squares(rows, targets, weights, lowest)))


def corrected(rates, factors, points):
    """Rates as steps have them."""
    names = {}
    for point in points:
        names[(*point.kind, point.call["form"])] = names[(*point.kind, "")] = factor_class(point.call)
    for kind, rate in rates.items():
        start, flop, byte = (factors[names[kind]] * x for x in rate)
        yield kind, (start + (1e-6 * factors["start"] if start > 0 else 0.0), flop, byte)


# What is written


def number(value, unit):
    """A rate with three digits, as C++ reads it: "612e12"."""
    if value == 0:
        return "kFreeFlops"
    return f"{float(f'{1 / value / unit:.3g}'):g}e{round(math.log10(unit))}"


class Table:
    """Where rates and steps are written, and which kinds."""

    # Of 16 bits: what has kernels for Hopper.
    DIFFER = {"attention", "attention_backward", "linear_cross_entropy_train"}

    def __init__(self, portable):
        self.portable = portable
        self.most_others = 1.0 if portable else MOST_OTHERS
        self.known = dict(written_rates("h200")) if portable else {}
        self.name = "portable" if portable else "h200"
        self.function = "PortableRates" if portable else "H200Rates"

    def has(self, call):
        return not self.portable or (call["op"] in self.DIFFER and call["numbers"] == "half")

    def check(self, runs):
        for run in runs:
            if (PORTABLE in run.sets) != self.portable:
                raise RuntimeError(f"{run.name}: with --portable all runs have {PORTABLE}, without it none")


def write_rates(table, rates, factors, runs, points, date):
    held_out = [run.name for run in runs if run.held_out]
    factor_text = ", ".join(f"{name} {factor:.3f}" for name, factor in factors.items() if name != "start")
    words = (f"Made by bench/rates.py from the times of {len(points)} calls of {len(runs) - len(held_out)} runs on one "
             f"{runs[0].card}, {date}. Held out: {', '.join(held_out)}. Do not edit.\n"
             f"Times of single calls are multiplied by what steps took of them: {factor_text}; and each launch takes "
             f"{factors['start']:.2f} microseconds more, since others are next to it.")
    lines = []
    for paragraph in words.split("\n"):
        line = "//"
        for word in paragraph.split():
            if len(line) + 1 + len(word) > 100:
                lines.append(line)
                line = "//"
            line += " " + word
        lines.append(line)
    rows = []
    for (op, numbers, form), (start, flop, byte) in sorted(corrected(rates, factors, points)):
        start_text = f"{start * 1e6:.2f}e-6" if start > 0 else "0"
        rows.append(f'    {{{{"{op}", "{numbers}", "{form}"}}, {start_text}, {number(flop, 1e12)}, '
                    f"{number(byte, 1e12)}}},")
    infinite = any("kFreeFlops" in row for row in rows)
    free = ["constexpr double kFreeFlops = std::numeric_limits<double>::infinity();", ""]
    (REPOSITORY / f"memory/{table.name}_rates.cc").write_text("\n".join([
        *lines, f'#include "memory/{table.name}_rates.h"', "", *(["#include <limits>", ""] if infinite else []),
        "namespace plimsoll::memory {", "namespace {", "", *(free if infinite else []),
        f"constexpr MeasuredRate k{table.function}[] = {{", "    // Kind, start in seconds, FLOP/s, bytes a second.", *rows,
        "};", "", "}  // namespace", "",
        f"std::span<const MeasuredRate> {table.function}() {{ return k{table.function}; }}", "",
        "}  // namespace plimsoll::memory", ""]))


def write_steps(table, runs, date):
    steps = [{"config": run.file, "measured_ms": run.measured_ms, "held_out": run.held_out} for run in runs if run.shipped]
    head = f'"card": {json.dumps(runs[0].card)},\n "date": {json.dumps(date)}'
    lines = ",\n".join(f"  {json.dumps(step)}" for step in steps)
    (REPOSITORY / f"tests/memory/{table.name}_steps.json").write_text(f'{{\n {head},\n "steps": [\n{lines}\n ]\n}}\n')


def print_fits(rates, points):
    print(f"{'kind':60} calls  share  error  worst")
    for kind in sorted(rates):
        own = [p for p in points if p.kind == kind[:2] and kind[2] in ("", p.call["form"])]
        errors = [math.log(seconds_of(rates[kind], p.call) / p.seconds) for p in own]
        total = sum(p.weight for p in own)
        error = math.sqrt(sum(p.weight * e * e for p, e in zip(own, errors)) / total)
        worst = max(errors, key=abs)
        print(f"{' '.join(kind):60} {len(own):5} {total:6.3f} {100 * error:5.1f}% {100 * worst:+5.0f}%")


def table_row(run, predicted_ms):
    what = " ".join([run.name if not run.shipped else pathlib.Path(run.file).stem, *(f"`{s}`" for s in run.sets)])
    held = "yes" if run.held_out else ""
    difference = 100 * (predicted_ms / run.measured_ms - 1)
    return f"| {what} | {predicted_ms:.4g} | {run.measured_ms:.4g} | {difference:+.1f} % | {held} |"


def print_table(runs, predictions):
    print("| run | predicted, ms | measured, ms | difference | held out |\n|---|---|---|---|---|")
    for run in sorted(runs, key=lambda run: (not run.shipped, run.name)):
        if run.measured_ms is None:
            continue
        print(table_row(run, predictions[run.name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--calls", required=True, help="the program bench:step_calls")
    parser.add_argument("--hold-out", default="", help="names of runs, with commas between them")
    parser.add_argument("--portable", action="store_true", help=f"the runs had {PORTABLE}")
    parser.add_argument("--table", action="store_true", help="print the table of docs/measured/budget.md, write nothing")
    parser.add_argument("--fits", action="store_true", help="also print the errors of each kind's fit")
    arguments = parser.parse_args()
    program = pathlib.Path(arguments.calls).resolve()
    runs, date = read_runs(arguments.folder, set(filter(None, arguments.hold_out.split(","))))
    table = Table(arguments.portable)
    table.check(runs)
    for run in runs:
        run.ask(program)
    if arguments.table:
        shipped = [run for run in runs if run.shipped]
        print_table(shipped, {run.name: run.predicted_ms for run in shipped})
        return
    calls = {signature: call for run in runs for signature, call in run.calls.items()}
    points = points_of(runs, {signature: call for signature, call in calls.items() if table.has(call)})
    rates = fit_kinds(points, table.known)
    factors = fit_factors(rates, runs, table.most_others)
    if arguments.fits:
        print_fits(rates, points)
    print("factors: " + ", ".join(f"{name} {factor:.3f}" for name, factor in factors.items()))
    print_table(runs, {run.name: sum(ms * factors.get(name, 1.0) for name, ms in parts_of(rates, run).items())
                       for run in runs})
    write_rates(table, rates, factors, runs, points, date)
    write_steps(table, runs, date)


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as problem:
        sys.exit(str(problem))
