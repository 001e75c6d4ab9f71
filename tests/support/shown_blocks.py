"""Blocks of code in documents: those between fences, and indented ones behind an empty line."""


def blocks(text):
    """Blocks of code as (the line of text before, the block's lines, its first line's number)."""
    before, previous, found, fence = "", "", None, False
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.startswith("```"):
            if fence:
                yield before, found, first
                before, found = "", None
            else:
                found, first = [], number + 1
            fence = not fence
        elif fence:
            found.append(line)
        elif line.startswith("    ") and (found is not None or previous == ""):
            if found is None:
                found, first = [], number
            found.append(line[4:])
        elif found is not None and line == "":
            found.append("")
        else:
            if found is not None:
                yield before, found, first
                found = None
            if line:
                before = line
        previous = line
    if found is not None:
        yield before, found, first
