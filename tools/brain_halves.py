#!/usr/bin/env python3
"""Makes a data set for segmentation of one real brain: its left half to train with, and the mirror
image of its right half to test with.

    tools/brain_halves.py FOLDER [--templates /usr/share/mricron/templates]

The volume is ch2, the mean of 27 MRI scans of one person (Holmes et al. 1998), and its labels are
the AAL atlas (Tzourio-Mazoyer et al. 2002), both of Debian's package mricron-data, 1 mm a voxel.
Classes 1 to 54 are the atlas's regions that both halves have, in its order, and 55 is the vermis
between them. The folder has the Decathlon's layout, and a dataset.json with the classes' names.
"""

import argparse
import gzip
import json
import pathlib
import struct
import sys

HEADER = 352  # bytes before the voxels
SIZE = (181, 217, 181)  # x from left to right, y, z
HALF = 90  # in front of the middle plane, and behind it
PAIRS = 54
VERMIS = PAIRS + 1


def read(path):
    """Header and voxels, uint8, of a file of the one grid that both files have."""
    try:
        data = gzip.decompress(path.read_bytes())
    except OSError as error:
        sys.exit(f"{path}: {error.strerror or error}; install mricron-data, or name another folder "
                 "with --templates")
    size = struct.unpack("<3h", data[42:48])
    kind, = struct.unpack("<h", data[70:72])
    if size != SIZE or kind != 2 or len(data) != HEADER + SIZE[0] * SIZE[1] * SIZE[2]:
        sys.exit(f"{path}: {size} voxels of type {kind}; {SIZE} of type 2, uint8, are expected")
    return data[:HEADER], data[HEADER:]


def halves(header, voxels):
    """Two files' bytes: the left half, and the right one as a mirror shows it, on the same grid."""
    header = bytearray(header)
    struct.pack_into("<h", header, 42, HALF)
    rows = [voxels[at:at + SIZE[0]] for at in range(0, len(voxels), SIZE[0])]
    left = b"".join(row[:HALF] for row in rows)
    right = b"".join(row[:-HALF - 1:-1] for row in rows)
    return bytes(header) + left, bytes(header) + right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--templates", type=pathlib.Path,
                        default=pathlib.Path("/usr/share/mricron/templates"))
    arguments = parser.parse_args()

    image = read(arguments.templates / "ch2.nii.gz")
    header, regions = read(arguments.templates / "aal.nii.gz")
    # Regions 2k - 1 and 2k are the left and the right one of a pair; those behind are the vermis.
    classes = bytes(min((region + 1) // 2, VERMIS) for region in range(256))
    for folder, (left, right) in {"images": halves(*image),
                                  "labels": halves(header, regions.translate(classes))}.items():
        for part, data in {"Tr/left": left, "Ts/right": right}.items():
            path = arguments.folder / f"{folder}{part}.nii.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(data, mtime=0))

    lines = (arguments.templates / "aal.nii.txt").read_text(encoding="ascii").splitlines()
    names = [line.split()[1].removesuffix("_L") for line in lines[:2 * PAIRS:2]]
    names = ["background"] + names + ["Vermis"]
    (arguments.folder / "dataset.json").write_text(
        json.dumps({"labels": {name: i for i, name in enumerate(names)}}, indent=1) + "\n")
    print(f"{arguments.folder}: {len(names)} classes")


if __name__ == "__main__":
    main()
