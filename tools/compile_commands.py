#!/usr/bin/env python3
"""Writes compile_commands.json, which editors and clangd read, for all C++ sources; CUDA's with --config=cuda.

  tools/compile_commands.py [--config=cuda]

Build once before, so that generated sources and the libraries' headers are there.
"""

import argparse
import json
import os
import pathlib
import re

from bazel_actions import bazel, read_actions


def sources_of(source):
    """Those that are compiled with a source: of tools/merged.bzl several, else itself."""
    path = pathlib.Path(source)
    if re.search(r"_merged_\d+\.cc$", source) and path.exists():
        return re.findall(r'^#(?:line 1|include) "(.*\.cc)"', path.read_text(), re.M)
    return [source]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", action="append", default=[], help="as of bazel: cuda")
    arguments = parser.parse_args()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    options = [f"--config={config}" for config in arguments.config]
    base = bazel("info", *options, "output_base").strip()
    targets = ["//app:plimsoll", "//tests/...", "//bench/...", "//docs/..."]
    commands = {}
    for action in read_actions(options, targets, "CppCompile"):
        source = action["arguments"][action["arguments"].index("-c") + 1]
        # clang lacks the first option, and an editor should show warnings as warnings.
        flags = [a for a in action["arguments"][1:] if a not in ("-fno-canonical-system-headers", "-Werror")]
        flags = [f"{base}/{a}" if a.startswith("external/") else a for a in flags]
        for file in sources_of(source):
            arguments = [file if flag == source else flag for flag in flags]
            commands[file] = {"directory": os.getcwd(), "file": file, "arguments": ["g++", *arguments]}
    pathlib.Path("compile_commands.json").write_text(json.dumps([commands[s] for s in sorted(commands)], indent=1))
    print(f"compile_commands.json: {len(commands)} sources")


if __name__ == "__main__":
    main()
