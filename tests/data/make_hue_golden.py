#!/usr/bin/env python3
"""Writes testdata/hue.json: what Pillow's HSV makes of colours whose hue is turned, as torchvision's adjust_hue turns
it of Pillow's images.

    python3 tests/data/make_hue_golden.py      needs Pillow (13.0)

A line is one case: the turn, and red, green and blue before and after in hexadecimal.
"""
import json
import pathlib

from PIL import Image


def line(turn):
    levels = (0, 1, 90, 200, 255)
    before = Image.new("RGB", (len(levels) ** 2, len(levels)))
    before.putdata([(r, g, b) for r in levels for g in levels for b in levels])
    hue, saturation, value = before.convert("HSV").split()
    hue = hue.point(lambda h: (h + int(turn * 255)) % 256)
    after = Image.merge("HSV", (hue, saturation, value)).convert("RGB")
    return json.dumps({"turn": turn, "before": before.tobytes().hex(), "after": after.tobytes().hex()})


path = pathlib.Path(__file__).parent / "testdata" / "hue.json"
path.write_text("[\n" + ",\n".join(line(turn) for turn in (0, 0.1, -0.3, 0.5)) + "\n]\n")
