#!/usr/bin/env python3
"""Runs everything that needs a GPU, and ends with the line "N passed, N failed[, N skipped]".

  tools/gpu_suite.py --pack suite.tar.xz           on a machine with Bazel and the CUDA toolkit

and on one with a GPU, where no Bazel is needed:

  tar xf suite.tar.xz && cd pack && python3 build.py && python3 tools/gpu_suite.py

Parts, all of them but the last unless some are named:
  cases      ops against the CPU, kernels, whole trainings, golden trajectories: //tests:cuda_test, each suite in a
             process of its own, several beside one another; then those that must be alone on the GPU
  ranks      those cases that are for several ranks, and trainings of several ranks compared with one another
             (//tests/parallel:ranks_test), under mpirun with a GPU for each
  memcheck   compute-sanitizer over all ops and over short trainings, one of them on all GPUs
  budgets    trainings whose memory is sampled from outside, by the driver's count, against their budget
  speeds     the rows of README.md's table (bench/speed_rows.json): bytes must be the README's, times are shown
  portable   cases, and times of the same rows, with the kernels and limits of other GPUs (debug.act_as). Only when named.
             In a build with CUDA_ARCHITECTURES=80:90 those kernels have no instructions of 9.0 either.

In a checkout with Bazel the programs are those of `bazel build --config=cuda //app:plimsoll //tests:cuda_test
//tests/parallel:ranks_test //bench:cuda_step`. Exit code 0 only if something passed and nothing failed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = {"plimsoll": "app/plimsoll", "cuda_test": "tests/cuda_test", "ranks_test": "tests/parallel/ranks_test",
            "cuda_step": "bench/cuda_step"}
DATA = ["bench/speed_rows.json", "configs", "docs", "tests/golden/data", "tests/support/mpirun.sh", "tests/trainer/preferences",
        "tools/gpu_suite.py"]
GIB = 1 << 30
# The cases that count the GPU's memory, fill it, or take what they measure to be faster.
ALONE = {"memory of a killed run": "CudaKilled.*", "choices": "*.ChoicesMadeAnew*", "configs": "*CudaConfig.*"}


class Count:
    """What passed, failed and was skipped, said as it comes."""

    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], 0

    def add(self, name, good, detail=""):
        if good:
            self.passed += 1
        else:
            self.failed.append(name)
        mark = "ok" if good else "FAILED"
        print(f"{mark:<7}{name}" + (f": {detail}" if detail else ""), flush=True)

    def skip(self, name, why, cases=1):
        self.skipped += cases
        print(f"skipped {name}: {why}", flush=True)

    def end(self):
        for name in self.failed:
            print(f"FAILED {name}")
        line = f"{self.passed} passed, {len(self.failed)} failed"
        print(line + (f", {self.skipped} skipped" if self.skipped else ""))
        return 0 if self.passed and not self.failed else 1


class Suite:
    """The programs, in a folder that looks to them like the repository."""

    def __init__(self, programs, folder, count):
        self.programs, self.folder, self.count = programs, pathlib.Path(folder), count
        for top in ("configs", "docs", "tests"):
            (self.folder / top).symlink_to(ROOT / top)
        (self.folder / "app").mkdir()
        (self.folder / "app/plimsoll").symlink_to(programs["plimsoll"])
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))

    def run(self, *command, seconds=600):
        """The exit code and all that it says; a time-out is code 124."""
        try:
            done = subprocess.run([str(part) for part in command], cwd=self.folder, env=self.environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, check=False)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            said = late.stdout or ""
            return 124, said if isinstance(said, str) else said.decode(errors="replace")

    def suites(self, program="cuda_test"):
        """The suites of cases."""
        _, listing = self.run(self.programs[program], "--gtest_list_tests")
        return [line.split("#")[0].strip().rstrip(".") for line in listing.splitlines() if re.match(r"\S+\.( |$)", line)]

    def cases(self, act_as=None):
        # Most of the time goes into the CPU's references, of which each takes a core or two.
        with concurrent.futures.ThreadPoolExecutor(min(8, 1 + len(os.sched_getaffinity(0)) // 4)) as beside:
            alone = ":".join(ALONE.values())
            for done in beside.map(lambda suite: self.run_cases(suite, f"{suite}.*-{alone}", act_as), self.suites()):
                self.count_cases(*done)
        for name, cases in ALONE.items():
            self.count_cases(*self.run_cases(name, cases, act_as))

    def run_cases(self, name, cases, act_as=None):
        """Runs the cases in one process: their name, its exit code, output and time, and the report's file."""
        acting = ["env", f"PLIMSOLL_TEST_ACT_AS={act_as}"] if act_as else []
        report = self.folder / f"{name.replace('/', '.')}.json"
        begin = time.monotonic()
        code, said = self.run(*acting, self.programs["cuda_test"], f"--gtest_filter={cases}",
                              f"--gtest_output=json:{report}", seconds=1800)
        return f"{name} as {act_as}" if act_as else name, code, said, f"{time.monotonic() - begin:.0f} s", report

    def count_cases(self, name, code, said, seconds, report):
        try:
            suites = json.loads(report.read_text())["testsuites"]
        except (OSError, ValueError, KeyError):
            self.count.add(name, False, f"ended with code {code}\n{said[-2000:]}")
            return
        all_cases = [case for suite in suites for case in suite["testsuite"]]
        failed = [case for case in all_cases if case.get("failures")]
        skipped = [case for case in all_cases if case.get("result") == "SKIPPED"]
        good = len(all_cases) - len(failed) - len(skipped)
        if good:
            self.count.passed += good
            print(f"ok     {name}: {good} cases, {seconds}", flush=True)
        for case in failed:
            self.count.add(f"{name}.{case['name']}", False, case["failures"][0].get("failure", "")[:2000])
        if skipped:
            why = re.search(r"Skipped\n(.*)", said)
            self.count.skip(name, why[1] if why else "see its output", len(skipped))
        if code != 0 and not failed:
            self.count.add(name, False, f"ended with code {code}\n{said[-2000:]}")

    def gpus_for_ranks(self, part):
        """How many GPUs there are, or 0 after a line that says why several ranks cannot run."""
        _, listing = self.run("nvidia-smi", "-L")
        gpus = listing.count("GPU ")
        if gpus >= 2 and shutil.which("mpirun") is not None:
            return gpus
        self.count.skip(part, f"{gpus} GPU" if gpus < 2 else "no mpirun")
        return 0

    def ranks(self):
        gpus = self.gpus_for_ranks("ranks")
        of_ranks = ("Communicators", "VocabularyParallel", "StageLinks")
        suites = [("cuda_test", s) for s in self.suites() if any(part in s for part in of_ranks)]
        suites += [("ranks_test", s) for s in self.suites("ranks_test")]
        jobs = [(program, suite, ranks) for ranks in (2, 4, 8) if ranks <= gpus for program, suite in suites]
        with concurrent.futures.ThreadPoolExecutor(min(12, 1 + len(os.sched_getaffinity(0)) // 4)) as beside:
            runs = [beside.submit(self.run_ranks, *job) for job in jobs]
            for run in concurrent.futures.as_completed(runs):
                name, code, said = run.result()
                if code == 0 and re.search(r"\[  PASSED  \] 0 tests", said):
                    self.count.skip(name, re.search(r"Skipped\n(.*)", said)[1])
                else:
                    self.count.add(name, code == 0, said[-2000:] if code else "")

    def run_ranks(self, program, suite, ranks):
        """Runs a suite on ranks with a GPU each: its name, exit code and output."""
        environment = ["PLIMSOLL_MPI_SECONDS=500"]
        if program == "ranks_test":
            environment.append("PLIMSOLL_TEST_DEVICE=cuda")
        code, said = self.run("env", *environment, ROOT / "tests/support/mpirun.sh", ranks, self.programs[program],
                              f"--gtest_filter={suite}.*")
        return f"{suite} on {ranks} ranks", code, said

    def memcheck(self):
        if shutil.which("compute-sanitizer") is None:
            self.count.skip("memcheck", "no compute-sanitizer")
            return
        # Without API errors: NCCL asks for what it can do without.
        tool = ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", "--report-api-errors", "no"]
        small = self.folder / "small.yaml"
        small.write_text("model: {family: gpt2, layers: 2, width: 256, heads: 4, vocab: 512, sequence: 128, dropout: 0.1}\n"
                         "data: {synthetic: true}\ndevice: cuda\namp: {dtype: bf16}\nmemory: {calibrate: false}\n"
                         "train: {steps: 3, micro_batch: 2, accumulate: 2, eval_every: 2}\n"
                         f"checkpointing: {{policy: selective}}\nrun: {{dir: {self.folder / 'memcheck'}}}\n")
        train = [*tool, self.programs["plimsoll"], "train", small, "--set", "run.overwrite=true"]
        in_8_bits = ["--set", "amp.fp8.recipe=current", "--set", "amp.fp8.skip_ends=0"]
        runs = {
            "all ops": [*tool, self.programs["cuda_test"], "--gtest_filter=*CudaOpTest.AgreesWithTheCpu/*"],
            "a training": train,
            "a training in 8 bits": [*train, *in_8_bits],
        }
        gpus = self.gpus_for_ranks("memcheck of ranks")
        if gpus:
            launch = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", gpus]
            runs |= {f"{gpus} ranks with {key}": [*launch, *train, *in_8_bits, "--set", f"parallel.{key}"]
                     for key in ("zero=3", "tensor=2", "pipeline=2")}
        for name, command in runs.items():
            # Algorithms that are chosen by time would be others here than anywhere else. What these processes take
            # of the GPU is the tool's, too: later runs must not plan with it.
            code, said = self.run("env", "PLIMSOLL_CUDA_GEMM=first", f"XDG_CACHE_HOME={self.folder / 'checked'}", *command,
                                  seconds=1800)
            summaries = re.findall(r"ERROR SUMMARY: \d+ errors?", said)  # one for each process
            good = code == 0 and set(summaries) == {"ERROR SUMMARY: 0 errors"}
            self.count.add(f"memcheck: {name}", good, summaries[0] if good else f"code {code}\n{said[-3000:]}")

    def budgets(self):
        bench = "configs/bench/gpt2-124m.yaml"
        auto = ["checkpointing.policy=auto", "train.steps=8", "schedule.warmup=1", "train.eval_every=0", "save.model=false"]
        runs = [
            ("6GiB", bench, auto),
            ("4GiB", bench, [*auto, "checkpointing.offload=[\"*\"]"]),
            ("3GiB", bench, [*auto, "train.micro_batch=8", "train.accumulate=4", "optimizer.place=auto",
                             "memory.weights=auto", "memory.gradients=auto"]),
        ]
        for budget, config, sets in runs:
            out = self.folder / f"budget-{budget}"
            with GpuMeter() as meter:
                code, said = self.run(self.programs["plimsoll"], "train", config, *(
                    part for each in [*sets, f"memory.budget={budget}", f"run.dir={out}"] for part in ("--set", each)))
            name = f"budget {budget}"
            if code != 0:
                self.count.add(name, False, said[-2000:])
                continue
            most = meter.most
            if most == 0:
                self.count.skip(name, "nothing counts this GPU's memory")
                continue
            line = int(budget.removesuffix("GiB")) * GIB
            self.count.add(name, most <= line, f"at most {most / GIB:.3f} GiB in {meter.samples} samples ({meter.how})")

    def portable(self):
        for gpu in ("8.0", "8.6", "8.9", "12.0"):
            self.cases(gpu)
        for gpu in ("8.0", "8.6"):
            self.speeds(gpu)

    def speeds(self, act_as=None):
        for row in json.loads((ROOT / "bench/speed_rows.json").read_text()):
            if "readme" not in row:
                continue
            report = self.folder / "speed.json"
            code, said = self.run(self.programs["cuda_step"], row["config"], "--json", report, *(
                part for each in [*row.get("sets", []), *([f"debug.act_as={act_as}"] if act_as else [])]
                for part in ("--set", each)))
            name = f"speed of {row['name']}" + (f" as {act_as}" if act_as else "")
            if code != 0:
                self.count.add(name, False, said[-2000:])
                continue
            got, readme = json.loads(report.read_text()), row["readme"]
            detail = (f"{got['step_ms']:.1f} ms, {got['step_ms'] / float(readme['step_ms']):.2f} of README's; "
                      f"arena {got['arena_bytes'] / GIB:.2f} GiB")
            same = act_as is not None or same_bytes(got["arena_bytes"], readme["arena"])
            if got.get("process_bytes"):
                detail += f", process {got['process_bytes'] / GIB:.2f} GiB"
                same = same and (act_as is not None or got["process_bytes"] <= 1.01 * float(readme["process"].split()[0]) * GIB)
            self.count.add(name, same, detail + ("" if same else f"; README says {readme['arena']}, {readme['process']}"))


def same_bytes(got, text):
    """Whether that many bytes are what the text says, with its digits."""
    number = text.split()[0]
    digits = len(number.partition(".")[2])
    return abs(got / GIB - float(number)) <= 0.51 * 10 ** -digits


class GpuMeter:
    """Samples what the first GPU holds beyond what it held before."""

    def __init__(self):
        self.most, self.samples, self.how = 0, 0, "the card's memory, less what it held before"
        self.before, self.done = self.used(), threading.Event()

    @staticmethod
    def used():
        answer = subprocess.run(["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                                capture_output=True, text=True, check=False)
        return int(answer.stdout) << 20 if answer.stdout.strip().isdigit() else 0

    def sample(self):
        while not self.done.is_set():
            self.most = max(self.most, self.used() - self.before)
            self.samples += 1

    def __enter__(self):
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


def pack(output):
    """Packs what the suite needs."""
    labels = ["//" + ":".join(path.rsplit("/", 1)) for path in PROGRAMS.values()]
    command = [ROOT / "tools/without_bazel.py", "--config=cuda", "--libraries", "-o", output, "--data", *DATA, "--", *labels]
    return subprocess.run(command, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="default: all")
    parser.add_argument("--pack", metavar="FILE", help="pack all of it for another machine; run nothing")
    arguments = parser.parse_args()
    if arguments.pack:
        return pack(arguments.pack)
    parts = ["cases", "ranks", "memcheck", "budgets", "speeds", "portable"]
    for part in arguments.parts:
        if part not in parts:
            sys.exit(f"gpu_suite.py: {part}: no such part; there are {', '.join(parts)}")
    programs = {}
    for name, path in PROGRAMS.items():
        found = [p for p in (ROOT / "bin" / name, ROOT / "bazel-bin" / path) if p.exists()]
        if not found:
            sys.exit(f"gpu_suite.py: no bin/{name} and no bazel-bin/{path}: build first (see --help)")
        programs[name] = found[0].resolve()
    count = Count()
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(programs, folder, count)
        for part in arguments.parts or parts[:-1]:
            print(f"== {part}", flush=True)
            getattr(suite, part)()
    return count.end()


if __name__ == "__main__":
    sys.exit(main())
