#!/usr/bin/env python3
"""Packs programs to be compiled on a machine that has no Bazel, on all of its cores.

  tools/without_bazel.py --config=cuda -o pack.tar.xz //app:plimsoll //tests/ops:cuda_registry_test
  tools/without_bazel.py --config=cuda -o pack.tar.xz --libraries --data configs -- //app:plimsoll

and over there

  tar xf pack.tar.xz && cd pack && python3 build.py && bin/plimsoll --version

The pack holds the sources, the generated ones too, the headers and static libraries of what is linked, and the
commands that Bazel would run. Over there must be g++ and, with --config=cuda, the CUDA toolkit ($CUDA_HOME, or where
nvcc is), cuDNN and NCCL; for several ranks also Open MPI. What the compiler warns of is no error there. --libraries:
with the headers and static libraries of those Debian packages that setup.sh installs, for a machine that lacks them.
--data: files and folders of the repository that the programs read, for tests.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

from bazel_actions import bazel, read_actions

# From setup.sh.
PACKAGES = ("libeigen3-dev", "zlib1g-dev", "liblzma-dev", "libzstd-dev", "libpcre2-dev", "libutf8proc-dev",
            "libyaml-cpp-dev", "nlohmann-json3-dev", "libcli11-dev", "libspdlog-dev", "libfmt-dev", "libgtest-dev",
            "libgmock-dev", "libjpeg62-turbo-dev", "libpng-dev")

BUILD = r'''#!/usr/bin/env python3
"""Compiles what build.json lists, then links it: the programs are in bin/. --jobs N: at once; default: all cores."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

os.chdir(pathlib.Path(__file__).resolve().parent)
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--jobs", type=int, default=os.cpu_count())
jobs = parser.parse_args().jobs
nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
cuda = os.environ.get("CUDA_HOME") or str(pathlib.Path(nvcc).resolve().parent.parent)
gold = shutil.which("ld.gold") is not None


def run(action):
    arguments = [a.replace("@CUDA@", cuda) for a in action["arguments"]]
    if not gold:
        arguments = [a for a in arguments if a != "-fuse-ld=gold"]
    pathlib.Path(action["output"]).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(action["output"]).unlink(missing_ok=True)
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    return action["output"], done.returncode, done.stderr


failed = 0
with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    for kind in ("compile", "archive", "link"):
        actions = [action for action in json.loads(pathlib.Path("build.json").read_text()) if action["kind"] == kind]
        for number, (output, code, errors) in enumerate(pool.map(run, actions), 1):
            if sys.stderr.isatty():
                print(f"\r{kind} {number}/{len(actions)} ", end="", file=sys.stderr, flush=True)
            if code != 0:
                failed += 1
                print(f"{output}: failed\n{errors}", file=sys.stderr)
        print(f"{kind}: {len(actions)} done, {failed} failed", flush=True)
        if failed:
            sys.exit(1)
'''


def nvcc_targets(script):
    """The -gencode flags that one of the repository's scripts hands to nvcc."""
    line = re.search(r'/nvcc (.*?) "\$@"', script.read_text())
    return line[1].split() if line else []


def portable(arguments):
    """A command as it runs over there."""
    kept = []
    for argument in arguments:
        if argument.startswith(("-Werror", "-Wl,-rpath,$ORIGIN", "@", "-fno-canonical-system-headers")):
            continue
        if argument.startswith("-L") and argument.endswith("/static_runtime"):
            continue
        argument = re.sub(r"^(-I|-isystem)?external/cuda/include", r"\1@CUDA@/include", argument)
        argument = re.sub(r"^(-L|-Wl,-rpath,)/\S*cuda[^/]*/lib64", r"\1@CUDA@/lib64", argument)
        kept.append(argument)
    return kept


def command_of(action, external):
    arguments = action["arguments"]
    output = next((o for o in action["outputs"] if not o.endswith((".d", ".unused"))), None)
    if action["mnemonic"] == "CudaCompile":
        begin = next(i for i, a in enumerate(arguments) if a.endswith(".unused")) + 1
        flags = nvcc_targets(external / "cuda" / pathlib.Path(arguments[0]).name)
        command = ["@CUDA@/bin/nvcc", *flags, *portable(arguments[begin:])]
        return {"kind": "compile", "output": output, "arguments": command}
    if action["mnemonic"] == "CppCompile":
        return {"kind": "compile", "output": output, "arguments": ["g++", *portable(arguments[1:])]}
    if arguments[0].endswith("ar"):
        return {"kind": "archive", "output": output, "arguments": ["ar", *portable(arguments[1:])]}
    program = "bin/" + pathlib.Path(output).name
    linked = [program if a == output else a for a in portable(arguments[1:])]
    return {"kind": "link", "output": program, "arguments": ["g++", *linked, "-s"]}


def include_folders(commands):
    """Those of libraries, with the toolkit's left out."""
    folders = set()
    for command in commands:
        arguments = command["arguments"]
        for flag, value in zip(arguments, arguments[1:]):
            if flag in ("-isystem", "-iquote", "-I") and value.startswith("external/") and "/" in value[9:]:
                folders.add(value)
    return {folder for folder in folders if not folder.startswith("external/cuda/")}


def library_files():
    """Of the packages: pairs of a path here and one in the pack."""
    for package in PACKAGES:
        listing = subprocess.run(["dpkg", "-L", package], check=True, capture_output=True, text=True).stdout
        for line in listing.splitlines():
            path = pathlib.Path(line)
            if not path.is_file():
                continue
            if line.startswith("/usr/include/"):
                yield path, "libraries/" + line[len("/usr/"):].replace("x86_64-linux-gnu/", "")
            elif path.suffix == ".a":
                yield path, "libraries/lib/" + path.name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", action="append", default=[], help="as of bazel: cuda")
    parser.add_argument("-o", "--output", required=True, help="PACK.tar.xz")
    parser.add_argument("--libraries", action="store_true", help="also those that setup.sh installs")
    parser.add_argument("--data", nargs="*", default=[], help="files and folders that the programs read")
    parser.add_argument("targets", nargs="+")
    arguments = parser.parse_args()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    options = [f"--config={config}" for config in arguments.config]
    external = pathlib.Path(bazel("info", "output_base").strip()) / "external"
    root = pathlib.Path(bazel("info", *options, "execution_root").strip())

    actions = list(read_actions(options, arguments.targets, "CppCompile|CudaCompile|CppLink|CppArchive|Genrule"))
    made = {output for action in actions if action["mnemonic"] != "Genrule" for output in action["outputs"]}
    wanted, commands = set(), []
    for action in actions:
        if action["mnemonic"] == "Genrule":
            continue
        commands.append(command_of(action, external))
        wanted |= action["inputs"] - made
    # Bazel names only the headers that it has seen being read; here all are listed.
    sources = subprocess.run(["git", "ls-files", "*.h", "*.cuh", "*.cc", "*.cu"], check=True, capture_output=True,
                             text=True).stdout.split()
    wanted |= set(sources)
    for folder in include_folders(commands):
        for file in (external.parent / folder).rglob("*"):
            if file.is_file():
                wanted.add(str(pathlib.Path(folder) / file.relative_to(external.parent / folder)))
    generators = {action["label"] for action in actions
                  if action["mnemonic"] == "Genrule" and wanted & set(action["outputs"])}
    if generators:
        bazel("build", *options, *sorted(generators))

    # Files of the toolkit and the compiler, which the other machine has, stay here, and so do
    # Bazel's own tools.
    skipped = re.compile(r"external/(cuda/(include|nvcc)|bazel_tools|local_config_cc)|.*/external/bazel_tools"
                         r"|.*\.(params|cppmap|modulemap)$|bazel-out/[^/]*/internal|.*/static_runtime/")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(arguments.output, "w:xz", preset=6) as pack:
        def add(source, name):
            pack.add(source, "pack/" + name, filter=lambda info: info if info.isreg() or info.isdir() else None)

        pack.dereference = True
        for file in sorted(wanted):
            if skipped.match(file):
                continue
            source = pathlib.Path(file) if not file.startswith(("bazel-out", "external")) else (
                external.parent / file if file.startswith("external") else root / file)
            if source.exists():
                add(source, file)
            else:
                print(f"left out, since it isn't here: {file}", file=sys.stderr)
        for path in arguments.data:
            add(path, path)
        if arguments.libraries:
            for path, name in library_files():
                add(path, name)
            for command in commands:
                if command["kind"] == "compile":
                    command["arguments"] += ["-isystem", "libraries/include", "-isystem", "libraries/include/eigen3"]
                elif command["kind"] == "link":
                    command["arguments"] += ["-Llibraries/lib"]
        for name, text in (("build.json", json.dumps(commands, indent=1)), ("build.py", BUILD)):
            path = pathlib.Path(folder) / name
            path.write_text(text)
            add(path, name)
    megabytes = os.path.getsize(arguments.output) / 1e6
    kinds = ", ".join(f"{sum(c['kind'] == kind for c in commands)} to {kind}" for kind in ("compile", "archive", "link"))
    print(f"{arguments.output}: {megabytes:.1f} MB; {kinds}")


if __name__ == "__main__":
    main()
