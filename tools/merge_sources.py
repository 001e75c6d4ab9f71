#!/usr/bin/env python3
"""Writes a source that compiles several as one: merge_sources.py FILE… (tools/merged.bzl).

A file that has nothing behind its one unnamed namespace gets a namespace of its own around it, so that what is within
meets nothing of its neighbours'. Other files are included as they are.
"""

import pathlib
import sys

OPENING, CLOSING = "namespace {", "}  // namespace"


def separated(lines, name):
    """The lines with that namespace around the unnamed one; None if there is something behind it, or no such one."""
    if lines.count(OPENING) != 1 or lines.count(CLOSING) != 1:
        return None
    end = lines.index(CLOSING)
    if any(line and not line.startswith(CLOSING) for line in lines[end + 1:]):
        return None
    return [f"namespace {name} {{ {line}" if line == OPENING else f"}} {line}" if line == CLOSING else line for line in lines]


for file in sys.argv[1:]:
    path = pathlib.Path(file)
    own = separated(path.read_text().splitlines(), path.stem.replace(".", "_"))
    print("\n".join([f'#line 1 "{file}"', *own]) if own else f'#include "{file}"')
