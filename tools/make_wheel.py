#!/usr/bin/env python3
"""usage: make_wheel.py FOLDER PROGRAM VERSION.CC LICENCES.SH [--cuda HEADER...] --files FILE...

Makes FOLDER/plimsoll-VERSION-py3-none-TAG.whl (PEP 427), with the same bytes whenever the contents
are the same:

    plimsoll/bin/plimsoll        the program, stripped
    plimsoll/command.py, ...     the files of tools/wheel/, and the commands that they are
    plimsoll/...                 the other files, at their places in the repository
    plimsoll-VERSION.dist-info/  what pip reads, and licences

With --cuda the version has the toolkit's as its local part, and NVIDIA's wheels are required in the
versions of these headers, which the program was built and tried with.
"""

import argparse
import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

# What every Linux with a new enough glibc has (PEP 600). The C++ library is part of the program.
EVERYWHERE = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d+|ld-linux-x86-64\.so\.2")
# In NVIDIA's wheels.
OF_NVIDIA = re.compile(r"lib(cublas|cublasLt|cudnn|nccl|nvrtc)\.so\.\d+")

SUMMARY = "Trains deep networks within a memory budget that you state"
TOOLS = ["brain_halves", "frechet_distance", "gemma3_text", "resnet_to_safetensors", "timm_vit", "to_jsonl"]
CONVERTING = ["numpy", "pyarrow", "safetensors", "torch"]  # what tools/*.py import
CHATS = ["jinja2"]  # by which plimsoll renders them


def platform_tag(program, cuda):
    """manylinux_2_NN_x86_64, for the newest version of glibc that the program asks for."""
    dynamic = subprocess.run(["readelf", "-d", "-V", "-W", program], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not EVERYWHERE.fullmatch(library) and not (cuda and OF_NVIDIA.fullmatch(library)):
            sys.exit(f"make_wheel.py: {program} needs {library}, which not every Linux has")
    newest = max(int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", dynamic))
    return f"manylinux_2_{newest}_x86_64"


def number(headers, name):
    return int(re.search(rf"^#define {name}\s+(\d+)", headers, re.MULTILINE)[1])


def of_cuda(headers):
    """The local part of the version, and requirements."""
    def version(*names):
        return ".".join(str(number(headers, name)) for name in names)

    toolkit = number(headers, "CUDA_VERSION")
    major, minor = toolkit // 1000, toolkit % 1000 // 10
    cublas = version("CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH")
    cudnn = version("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL")
    nccl = version("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH")
    return f"+cu{major}{minor}", [f"nvidia-cublas=={cublas}.*",
                                  f"nvidia-cuda-nvrtc=={major}.{minor}.*",
                                  f"nvidia-cudnn-cu{major}=={cudnn}.*",
                                  f"nvidia-nccl-cu{major}=={nccl}"]


def metadata(version, requirements, readme):
    lines = ["Metadata-Version: 2.1", "Name: plimsoll", f"Version: {version}",
             f"Summary: {SUMMARY}", "License: Apache-2.0", "Requires-Python: >=3.8",
             "Description-Content-Type: text/markdown"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requirements]
    lines.append("Provides-Extra: convert")
    lines += [f"Requires-Dist: {package}; extra == 'convert'" for package in CONVERTING]
    lines.append("Provides-Extra: chats")
    lines += [f"Requires-Dist: {package}; extra == 'chats'" for package in CHATS]
    return "\n".join(lines) + "\n\n" + readme


def entry_points():
    commands = [("plimsoll", "plimsoll")]
    commands += [("plimsoll-" + tool.replace("_", "-"), tool) for tool in TOOLS]
    return "[console_scripts]\n" + "".join(f"{command} = plimsoll.command:{function}\n"
                                           for command, function in commands)


class Wheel:
    """A zip archive and its list of contents."""

    def __init__(self, path, dist_info):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = dist_info + "/RECORD"
        self.rows = []

    def add(self, name, content, executable=False):
        entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.create_system = 3  # Unix: installers keep the right to execute
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        self.zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.rows.append(f"{name},sha256={digest},{len(content)}\n")

    def close(self):
        self.rows.append(f"{self.record},,\n")
        self.add(self.record, "".join(self.rows).encode())
        self.zip.close()


def stripped(program, folder):
    path = folder / "plimsoll"
    subprocess.run(["strip", "-o", path, program], check=True)
    return path.read_bytes()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("program")
    parser.add_argument("version", type=pathlib.Path)
    parser.add_argument("licences")
    parser.add_argument("--cuda", nargs="+", default=[], type=pathlib.Path)
    parser.add_argument("--files", nargs="+", required=True, type=pathlib.Path)
    options = parser.parse_args()
    version = re.search(r'Version\(\) { return "(.*)"; }', options.version.read_text())[1]
    requirements = []
    if options.cuda:
        local, requirements = of_cuda("".join(header.read_text() for header in options.cuda))
        version += local
    tag = "py3-none-" + platform_tag(options.program, bool(options.cuda))
    dist_info = f"plimsoll-{version}.dist-info"
    wheel = Wheel(options.folder / f"plimsoll-{version}-{tag}.whl", dist_info)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        wheel.add("plimsoll/bin/plimsoll", stripped(options.program, work), executable=True)
        licences = work / "licences"
        licences.mkdir()
        subprocess.run([options.licences, licences], check=True)
        for path in sorted(licences.iterdir()):
            wheel.add(f"{dist_info}/licenses/{path.name}", path.read_bytes())
    for path in sorted(options.files):
        place = path.name if path.parent == pathlib.Path("tools/wheel") else str(path)
        wheel.add(f"plimsoll/{place}", path.read_bytes())
    readme = next(path for path in options.files if path == pathlib.Path("README.md"))
    licence = next(path for path in options.files if path == pathlib.Path("LICENSE"))
    wheel.add(f"{dist_info}/licenses/LICENSE", licence.read_bytes())
    wheel.add(f"{dist_info}/METADATA", metadata(version, requirements, readme.read_text()).encode())
    wheel.add(f"{dist_info}/WHEEL", (f"Wheel-Version: 1.0\nGenerator: plimsoll\n"
                                     f"Root-Is-Purelib: false\nTag: {tag}\n").encode())
    wheel.add(f"{dist_info}/entry_points.txt", entry_points().encode())
    wheel.close()


if __name__ == "__main__":
    main()
