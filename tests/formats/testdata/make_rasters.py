#!/usr/bin/env python3
"""Writes rasters.json: small JPEG and PNG files, and the pixels that Pillow reads from them.

    python3 tests/formats/testdata/make_rasters.py      needs Pillow (13.0)

A line is one file: its name, its bytes, its height, width and channels, and its pixels [H,W,C], in hexadecimal.
Pillow reads grey of 16 bits as such, and cuts it off at 255 when it narrows it; here the upper 8 bits are expected.
"""
import io
import json
import pathlib
import struct
import zlib

from PIL import Image, ImageOps

ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def picture(width, height, bands):
    """Colours that change from pixel to pixel by different steps."""
    steps = ((11, 3), (-7, 9), (5, -13), (17, 2))
    values = bytearray()
    for y in range(height):
        for x in range(width):
            for across, down in steps[:bands]:
                values.append((40 + across * x + down * y) % 256)
    return Image.frombytes({1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[bands], (width, height), bytes(values))


def saved(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def exif(orientation, order="<"):
    """A TIFF directory of two tags: the width, and the orientation."""
    mark = b"II" if order == "<" else b"MM"
    tags = struct.pack(order + "HHIHH", 0x0100, 3, 1, 99, 0) + struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return b"Exif\0\0" + mark + struct.pack(order + "HIH", 42, 8, 2) + tags + struct.pack(order + "I", 0)


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, depth, colour, values, interlaced=False, extra=b""):
    """Of samples [height][width][samples], none of whose rows is filtered."""
    def rows(x0, y0, dx, dy):
        lines = b""
        for y in range(y0, height, dy):
            bits = "".join(format(v, f"0{depth}b") for x in range(x0, width, dx) for v in values(x, y))
            bits += "0" * (-len(bits) % 8)
            if bits:
                lines += b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big")
        return lines
    passes = ADAM7 if interlaced else ((0, 0, 1, 1),)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra +
            chunk(b"IDAT", zlib.compress(b"".join(rows(*p) for p in passes))) + chunk(b"IEND", b""))


def jpegs():
    colours, grey = picture(19, 13, 3), picture(19, 13, 1)
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        yield f"colours {name}.jpg", saved(colours, "JPEG", quality=90, subsampling=subsampling)
    yield "grey.jpg", saved(grey, "JPEG", quality=85)
    yield "progressive.jpg", saved(colours, "JPEG", quality=80, progressive=True)
    yield "restarts.jpg", saved(colours, "JPEG", quality=80, restart_marker_blocks=1)
    four = picture(10, 9, 4).convert("RGB").convert("CMYK")
    four.putdata([(c, m, y, (i * 5) % 200) for i, (c, m, y, _) in enumerate(four.getdata())])
    cmyk = saved(four, "JPEG", quality=95)
    yield "cmyk.jpg", cmyk
    # The last byte of Adobe's marker says that the same numbers are YCCK.
    adobe = cmyk.index(b"Adobe")
    yield "ycck.jpg", cmyk[:adobe + 11] + b"\2" + cmyk[adobe + 12:]
    for orientation in range(1, 9):
        order = "<" if orientation % 2 else ">"
        yield f"orientation {orientation}.jpg", saved(grey, "JPEG", quality=90, exif=exif(orientation, order))


def pngs():
    yield "colours.png", saved(picture(7, 5, 3), "PNG")
    yield "colours alpha.png", saved(picture(7, 5, 4), "PNG")
    yield "grey.png", saved(picture(7, 5, 1), "PNG")
    yield "grey alpha.png", saved(picture(7, 5, 2), "PNG")
    palette = chunk(b"PLTE", bytes((37 * i + 11 * i * i) % 256 for i in range(3 * 16)))
    transparent = chunk(b"tRNS", bytes((0, 128, 255, 7)))
    for depth in (1, 2, 4, 8):
        most = min(2 ** depth, 16)
        yield f"palette {depth}.png", png(9, 4, depth, 3, lambda x, y, m=most: ((5 * x + 3 * y) % m,), extra=palette[:])
        yield f"grey {depth}.png", png(9, 4, depth, 0, lambda x, y, d=depth: ((5 * x + 3 * y) % 2 ** d,))
    yield "palette transparent.png", png(9, 4, 4, 3, lambda x, y: ((5 * x + 3 * y) % 16,), extra=palette + transparent)
    yield "colours 16.png", png(4, 3, 16, 2, lambda x, y: (x * 16001, 65535 - y * 20011, 255 * x + y))
    yield "alpha 16.png", png(4, 3, 16, 6, lambda x, y: (x * 16001, 65535 - y * 20011, 255 * x + y, 400 * x))
    yield "grey 16.png", png(4, 3, 16, 0, lambda x, y: (x * 16001 + y * 4000,))
    yield "interlaced.png", png(11, 9, 8, 2, lambda x, y: (20 * x, 25 * y, 255 - 20 * x), interlaced=True)
    yield "orientation 6.png", saved(picture(7, 5, 3), "PNG", exif=exif(6))


def line(name, file):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    if image.mode == "I;16":
        image = Image.frombytes("L", image.size, image.tobytes()[1::2])
    image = image.convert("L" if image.mode in ("1", "L", "LA") else "RGB")
    return {"name": name, "file": file.hex(), "height": image.height, "width": image.width,
            "channels": len(image.getbands()), "pixels": image.tobytes().hex()}


lines = [json.dumps(line(name, file)) for name, file in (*jpegs(), *pngs())]
path = pathlib.Path(__file__).parent / "rasters.json"
path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
