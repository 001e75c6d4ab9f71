#!/usr/bin/env python3
"""Writes testdata/picture_scaling.json: what Pillow's resize makes of boxes of small pictures.

    python3 tests/data/make_picture_scaling_golden.py      needs Pillow (12.0 or older)

A line is one case: the picture's height, width and channels, a box of it (top, left, height, width), the height and
width of the result, the number of the filter, and the result's bytes [H,W,C] in hexadecimal. Byte i of a picture is (37 i + 11 i²) mod 256.
Pillow 13 narrows some pictures down before across, which rounds otherwise, by 1.
"""
import json
import pathlib

from PIL import Image

CASES = (
    ((7, 5, 1), (0, 0, 7, 5), (3, 4)),
    ((3, 4, 3), (0, 0, 3, 4), (5, 2)),
    ((9, 9, 1), (0, 0, 9, 9), (2, 2)),
    ((20, 31, 3), (0, 0, 20, 31), (8, 8)),
    ((20, 31, 3), (3, 5, 11, 17), (8, 8)),
    ((20, 31, 3), (3, 5, 11, 17), (11, 6)),
    ((20, 31, 3), (4, 30, 16, 1), (4, 3)),
    ((6, 6, 1), (1, 1, 4, 4), (13, 9)),
    ((40, 40, 1), (0, 0, 40, 40), (1, 1)),
    ((2, 300, 1), (0, 7, 2, 290), (3, 11)),
    ((3, 7, 3), (0, 0, 3, 7), (3, 7)),
    ((1, 41, 1), (0, 0, 1, 41), (1, 29)),
    ((13, 1, 1), (0, 0, 13, 1), (47, 1)),
)


def line(size, box, to, resample):
    height, width, channels = size
    values = bytes((37 * i + 11 * i * i) % 256 for i in range(height * width * channels))
    picture = Image.frombytes("RGB" if channels == 3 else "L", (width, height), values)
    top, left, rows, columns = box
    part = picture.crop((left, top, left + columns, top + rows))
    result = part.resize((to[1], to[0]), resample)
    return json.dumps({"size": size, "box": box, "to": to, "resample": resample, "after": result.tobytes().hex()})


path = pathlib.Path(__file__).parent / "testdata" / "picture_scaling.json"
lines = [line(*case, resample) for resample in sorted(Image.Resampling) for case in CASES]
path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
