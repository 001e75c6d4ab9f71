"""The commands that the package installs."""

import importlib
import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent


def plimsoll():
    """Becomes the program: signals, exit codes and standard streams are its own."""
    program = FOLDER / "bin" / "plimsoll"
    os.execv(program, [str(program), *sys.argv[1:]])


def run_tool(name):
    """Runs main() of a script of tools/."""
    sys.path.insert(0, str(FOLDER / "tools"))  # scripts import their neighbours
    try:
        importlib.import_module(name).main()
    except ModuleNotFoundError as missing:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: needs the Python package {missing.name}; "
                 "install what converting needs: pip install 'plimsoll[convert]'")


def brain_halves():
    run_tool("brain_halves")


def frechet_distance():
    run_tool("frechet_distance")


def gemma3_text():
    run_tool("gemma3_text")


def resnet_to_safetensors():
    run_tool("resnet_to_safetensors")


def timm_vit():
    run_tool("timm_vit")


def to_jsonl():
    run_tool("to_jsonl")
