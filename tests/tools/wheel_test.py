#!/usr/bin/env python3
"""The wheel is one that pip installs, and what it installs runs alone, on a machine without MPI.

usage: wheel_test.py FOLDER
"""
import base64
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path("tests/support").resolve()))
sys.path.insert(0, str(pathlib.Path("tools").resolve()))
sys.dont_write_bytecode = True
import make_wheel  # noqa: E402
import unittest_xml  # noqa: E402

if len(sys.argv) != 2:
    sys.exit("wheel_test.py: with --config=cuda there is no wheel to test")
[WHEEL] = pathlib.Path(sys.argv.pop(1)).resolve().iterdir()
MPIRUN = pathlib.Path("tests/support/mpirun.sh").resolve()
TINY = """
model: {family: gpt2, layers: 1, width: 16, heads: 2, vocab: 64, sequence: 8}
data: {synthetic: true}
train: {steps: 3, micro_batch: 4, global_batch: 4, threads: 1}
run: {overwrite: true}
device: cpu
memory: {calibrate: false}
"""


def setUpModule():
    """A Python environment with the wheel, an empty folder, and a library that is no MPI."""
    global work, environment, empty, without_mpi, folder
    folder = tempfile.TemporaryDirectory()
    work = pathlib.Path(folder.name)
    environment, empty, broken = work / "environment", work / "empty", work / "broken"
    made = subprocess.run([sys.executable, "-m", "venv", environment], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        sys.exit(f"wheel_test.py: no Python environment, ./setup.sh installs python3-venv: {made.stdout}")
    subprocess.run([environment / "bin/pip", "-q", "--disable-pip-version-check", "install", "--no-index",
                    WHEEL], check=True)
    empty.mkdir()
    (empty / "tiny.yaml").write_text(TINY)
    broken.mkdir()
    (broken / "libmpi.so.40").touch()
    without_mpi = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(broken), "HOME": str(work)}


def tearDownModule():
    folder.cleanup()


def run(command, *arguments, **more):
    return subprocess.run([environment / "bin" / command, *arguments], cwd=empty, env={**without_mpi, **more},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Contents(unittest.TestCase):
    def test_the_name_says_version_and_platform(self):
        self.assertRegex(WHEEL.name, r"^plimsoll-\d+\.\d+\.\d+-py3-none-manylinux_2_\d+_x86_64\.whl$")

    def test_the_record_has_every_file(self):
        with zipfile.ZipFile(WHEEL) as wheel:
            [record] = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
            rows = [row.split(",") for row in wheel.read(record).decode().splitlines()]
            self.assertEqual(sorted(name for name, _, _ in rows), sorted(wheel.namelist()))
            for name, digest, size in rows:
                if name == record:
                    continue
                content = wheel.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
                self.assertEqual((digest, int(size)), ("sha256=" + expected, len(content)), name)
            for end in ["plimsoll/docs/configuration.md", "plimsoll/docs/configuration/model.md", "plimsoll/configs/quickstart.yaml",
                        "licenses/LICENSE", "licenses/libyaml-cpp-dev", "licenses/libjs-chart.js"]:
                self.assertTrue([name for name in wheel.namelist() if name.endswith(end)], end)

    def test_the_program_needs_what_every_linux_has(self):
        program = next(environment.glob("lib/python3*/site-packages/plimsoll/bin/plimsoll"))
        dynamic = subprocess.run(["readelf", "-d", program], check=True, stdout=subprocess.PIPE, text=True).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
        self.assertIn("libc.so.6", needed)
        self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"})

    def test_the_same_contents_make_the_same_bytes(self):
        files = []
        for name in ["LICENSE", "README.md"]:
            (work / name).write_text(name)
            files.append(name)
        (work / "version.cc").write_text('std::string_view Version() { return "1.2.3"; }\n')
        (work / "licences.sh").write_text("#!/bin/sh\necho free >$1/library\n")
        (work / "licences.sh").chmod(0o755)
        script = pathlib.Path(make_wheel.__file__).resolve()
        made = []
        for place in ["first", "second"]:
            (work / place).mkdir()
            subprocess.run([script, work / place, "/bin/true", "version.cc", "./licences.sh", "--files", *files],
                           check=True, cwd=work)
            [wheel] = (work / place).iterdir()
            made.append((wheel.name, wheel.read_bytes()))
            os.utime(work / "LICENSE", (0, 0))
        self.assertEqual(made[0], made[1])

    def test_with_cuda_it_asks_for_the_toolkits_versions(self):
        headers = ("#define CUDA_VERSION 13010\n#define CUBLAS_VER_MAJOR 13\n#define CUBLAS_VER_MINOR 1\n"
                   "#define CUBLAS_VER_PATCH 2\n#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 19\n"
                   "#define CUDNN_PATCHLEVEL 0\n#define NCCL_MAJOR 2\n#define NCCL_MINOR 28\n#define NCCL_PATCH 9\n")
        self.assertEqual(make_wheel.of_cuda(headers),
                         ("+cu131", ["nvidia-cublas==13.1.2.*", "nvidia-cuda-nvrtc==13.1.*",
                                     "nvidia-cudnn-cu13==9.19.0.*", "nvidia-nccl-cu13==2.28.9"]))


class Installed(unittest.TestCase):
    def test_the_command_is_the_program(self):
        result = run("plimsoll", "version")
        self.assertRegex(result.stdout, r"^plimsoll \d+\.\d+\.\d+ ", result.stderr)
        self.assertEqual(run("plimsoll", "plan", "nowhere.yaml").returncode, 2)

    def test_plans_a_shipped_configuration_in_an_empty_folder(self):
        result = run("plimsoll", "plan", "configs/quickstart.yaml", "--set", "memory.calibrate=false")
        self.assertIn("predicted step: ", result.stdout, result.stderr)

    def test_prints_the_documentation(self):
        result = run("plimsoll", "docs", "memory.budget")
        self.assertTrue(result.stdout.startswith("memory.budget\n"), result.stderr)

    def test_trains_without_mpi(self):
        result = run("plimsoll", "train", "tiny.yaml", "--set", "run.dir=alone")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((empty / "alone/metrics.jsonl").read_text().count('"loss"'), 3)

    def test_says_what_ranks_need(self):
        result = run("plimsoll", "train", "tiny.yaml", PMI_SIZE="2", PMI_RANK="0")
        self.assertEqual(result.returncode, 1)
        self.assertIn("install Open MPI", result.stderr)

    def test_no_python_stands_before_the_program(self):
        process = subprocess.Popen([environment / "bin/plimsoll", "train", "tiny.yaml", "--set", "run.dir=long",
                                    "--set", "train.steps=100000000"],
                                   cwd=empty, env=without_mpi, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        metrics = empty / "long/metrics.jsonl"
        until = time.monotonic() + 60
        while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < until:
            time.sleep(0.05)
        program = os.readlink(f"/proc/{process.pid}/exe")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertTrue(program.endswith("/site-packages/plimsoll/bin/plimsoll"), program)
        self.assertEqual(process.returncode, 4, errors)  # stopped by a signal

    def test_trains_on_ranks_with_the_machines_mpi(self):
        result = subprocess.run([MPIRUN, "2", environment / "bin/plimsoll", "train", "tiny.yaml",
                                 "--set", "run.dir=ranks"], cwd=empty, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertTrue((empty / "ranks/rank.1.log").exists())

    def test_converting_scripts_are_commands(self):
        for command in ["plimsoll-timm-vit", "plimsoll-resnet-to-safetensors", "plimsoll-brain-halves",
                        "plimsoll-to-jsonl"]:
            result = run(command, "--help")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"usage: {command}", result.stdout)
        result = run("plimsoll-frechet-distance", "a.npy", "b.npy")  # the environment has no numpy
        self.assertEqual(result.returncode, 1)
        self.assertIn("pip install 'plimsoll[convert]'", result.stderr)


if __name__ == "__main__":
    unittest_xml.main()
