#!/usr/bin/env python3
"""What the pages of docs/extending/, and the tutorial on models, show of files is what these files have.

A block of code after a line "`FILE`:" is that file; one after "`FILE` has:" is a part of it. Every page shows at least
one file, and every source file and run file of docs/examples/ is named on some page.
"""
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path("tests/support").resolve()))
import unittest_xml  # noqa: E402
from shown_blocks import blocks  # noqa: E402

ROOT = pathlib.Path.cwd()
PAGES = [*sorted((ROOT / "docs/extending").glob("*.md")), ROOT / "docs/tutorials/your_own_model.md"]
SHOWN = re.compile(r"`([^`]+)`( has)?:$")


def quotes(page):
    """The blocks of a page that show a file as (the file's name, whether a part of it, the text, its first line)."""
    for before, lines, first in blocks(page.read_text()):
        if shown := SHOWN.fullmatch(before):
            yield shown[1], bool(shown[2]), "\n".join(lines), first


def problem(name, is_part, text):
    """Empty, or what is wrong with a quote."""
    file = ROOT / name
    if not file.is_file():
        return "which does not exist, or is not among this test's data"
    content = file.read_text()
    if not text.strip():
        return "and no line of it"
    if is_part:
        # Complete lines only: "\n" before and after.
        return "" if f"\n{text}\n" in f"\n{content}" else "which does not have these lines:\n" + text
    return "" if text.rstrip("\n") == content.rstrip("\n") else "which has changed:\n" + content


class Document(unittest.TestCase):
    def test_quotes(self):
        self.assertGreaterEqual(len(PAGES), 12)
        wrong = []
        for page in PAGES:
            shown = list(quotes(page))
            if len(shown) != page.read_text().count("\n```") / 2:
                wrong.append(f"{page.name} has code between fences that names no file")
            if not shown:
                wrong.append(f"{page.name} shows no file")
            for name, is_part, text, first in shown:
                if what := problem(name, is_part, text):
                    wrong.append(f"{page.name}:{first} shows {name}, {what}")
        self.assertFalse(wrong, "\n".join(wrong))

    def test_names_every_example(self):
        text = "\n".join(page.read_text() for page in PAGES)
        examples = [*(ROOT / "docs/examples").glob("*.cc"), *(ROOT / "docs/examples").glob("*.yaml")]
        self.assertGreaterEqual(len(examples), 10)
        self.assertEqual([file.name for file in examples if file.name not in text], [])

    def test_finds_an_old_quote(self):
        name = "docs/examples/squared_relu.cc"
        content = (ROOT / name).read_text()
        line = content.splitlines()[-1]
        self.assertEqual(problem(name, False, content), "")
        self.assertEqual(problem(name, True, line), "")
        self.assertIn("has changed", problem(name, False, content + "// more"))
        self.assertIn("does not have", problem(name, True, line + " and more"))
        self.assertIn("does not have", problem(name, True, line[1:]))
        self.assertIn("no line", problem(name, True, ""))
        self.assertIn("does not exist", problem("docs/examples/none.cc", True, line))


if __name__ == "__main__":
    unittest_xml.main()
