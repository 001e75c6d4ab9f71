#!/usr/bin/env python3
"""What README.md and docs/ show of the program's output is what it prints.

usage: shown_output_test.py PLIMSOLL

A block of code with a line "$ plimsoll …" is an example: the command (a backslash at a line's end continues it), then
what it prints, up to the next such line. Of a command that fails that is what it prints to standard error. A word
"…" stands for any text. Line ends and the number of spaces don't count, since documents fold long lines. A block
after a line that ends with "`NAME.yaml`:" is that file, for the commands after it.

Pages whose examples need data or a trained model get small ones (tests/support/shown_data.py). There any number stands
for any other, since the page shows those of a larger model. A few pages show lines of a run's start without a command;
such runs are made as well.

plan_rows.json names rows of tables, by their section and first cells, and what `plimsoll plan` is asked for them: each
number of bytes in the row stands in what it answers, and each time is that of its step.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path("tests/support").resolve()))
import unittest_xml  # noqa: E402
import shown_data  # noqa: E402
from shown_blocks import blocks  # noqa: E402

ROOT = pathlib.Path.cwd()
PLAN_ROWS = ROOT / "tests/tools/plan_rows.json"
PROGRAM = pathlib.Path(sys.argv[1]).resolve()
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIALS = ROOT / "docs/tutorials"  # tutorial_test.py runs their commands

# How the program's answers begin: a block that has such a line must be an example.
PROGRAM_SAYS = re.compile(r"(Memory plan$|Peak in program |fits |does not fit |predicted step|step +\d+[ /:]|.*candidates; )")


def examples(lines):
    """The commands of a block as (arguments, words of what is shown, parted where "…" stands)."""
    rest = list(lines)
    while rest:
        line = rest.pop(0)
        if not line.startswith("$ plimsoll "):
            continue
        command = line[2:]
        while command.endswith("\\"):
            command = command[:-1] + rest.pop(0)
        parts = [[]]
        while rest and not rest[0].startswith("$ "):
            for word in rest.pop(0).split():
                if word == "…":
                    parts.append([])
                else:
                    parts[-1].append(word)
        yield shlex.split(command)[1:], parts


def without_numbers(words):
    return [re.sub(r"\d[\d.,]*", "0", word) for word in words]


def agree(parts, words):
    """Whether these parts follow one another in `words`, the first at the beginning and the last at the end."""

    def begins(at, part):
        return words[at : at + len(part)] == part

    if not begins(0, parts[0]):
        return False
    at = len(parts[0])
    for part in parts[1:-1]:
        while at <= len(words) - len(part) and not begins(at, part):
            at += 1
        if not begins(at, part):
            return False
        at += len(part)
    if len(parts) == 1:
        return at == len(words)
    last = len(words) - len(parts[-1])
    return last >= at and begins(last, parts[-1])


def run(arguments, folder, warnings=False):
    """What the program says, with its warnings or without. It runs in `folder`, without a GPU, without what was measured
    on this machine, and without a terminal.
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "XDG_CACHE_HOME")}
    environment.update(HOME=folder, CUDA_VISIBLE_DEVICES="")
    done = subprocess.run([PROGRAM, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    # What takes longer than two seconds says so: how long that is depends on the machine.
    errors = "".join(line for line in done.stderr.splitlines(True) if not line.endswith(" …\n"))
    if warnings:
        return errors + done.stdout
    shown = done.returncode == 3 and done.stdout  # a plan that is too large for its GPU
    return errors if done.returncode and not shown else done.stdout


def section(text, heading):
    """The lines of a document from a heading to the next."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    return found[1].splitlines() if found else []


def differences(figures, answers):
    """Those of a row's figures that none of the answers has."""
    words = {" ".join(pair) for answer in answers for pair in re.findall(r"([\d.]+) (KiB|MiB|GiB|TiB)\b", answer)}
    steps = [float(step) for answer in answers for step in re.findall(r"predicted step: ([\d.]+) ms", answer)]

    def there(figure):
        number, unit = figure.split()
        return any(abs(float(number) - step) <= 0.5 for step in steps) if unit == "ms" else figure in words

    return [figure for figure in figures if not there(figure)]


class ShownOutput(unittest.TestCase):
    def test_examples(self):
        tried, wrong = 0, []
        for document in (d for d in DOCUMENTS if TUTORIALS not in d.parents):
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "configs").symlink_to(ROOT / "configs")
                any_number = shown_data.make(document.name, pathlib.Path(folder), lambda *words: run(words, folder))
                for before, lines, first in blocks(document.read_text()):
                    file = re.search(r"`([\w-]+\.yaml)`:$", before)
                    if file and not lines[0].startswith("$ "):
                        (pathlib.Path(folder) / file[1]).write_text("\n".join(lines) + "\n")
                    for arguments, parts in examples(lines):
                        tried += 1
                        said = run(arguments, folder)
                        words = said.split()
                        if any_number:
                            parts, words = [without_numbers(part) for part in parts], without_numbers(words)
                        if not any(parts) or not agree(parts, words):
                            shown = "\n".join(lines).rstrip()
                            wrong.append(
                                f"{document.name}:{first} shows\n\n{shown}\n\n"
                                f"and {shlex.join(['plimsoll', *arguments])} prints\n\n{said}"
                            )
        if wrong:
            self.fail("\n".join(wrong))
        self.assertGreaterEqual(tried, 10, "hardly any examples: are they still written as this test expects?")

    def test_lines_of_a_start(self):
        for page, (beginning, maker) in shown_data.STARTS.items():
            shown = [
                lines
                for _, lines, _ in blocks((ROOT / "docs" / page).read_text())
                if lines[0].strip().startswith(beginning)
            ]
            self.assertEqual(len(shown), 1, f"{page}: {beginning}")
            with tempfile.TemporaryDirectory() as folder:
                maker(pathlib.Path(folder), lambda *words: run(words, folder))
                said = run(["train", "run.yaml"], folder, warnings=True)
            self.assertTrue(agree([[], " ".join(shown[0]).split(), []], said.split()), f"{page}: {beginning}: {said}")

    def test_rows_of_plans(self):
        tried, wrong = 0, []
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "configs").symlink_to(ROOT / "configs")
            for table in json.loads(PLAN_ROWS.read_text()):
                lines = section((ROOT / table["document"]).read_text(), table["section"])
                for name, settings in table["rows"].items():
                    place = f"{table['document']}, {table['section']}, {name}"
                    rows = [line for line in lines if line.startswith(f"| {name} |")]
                    self.assertEqual(len(rows), 1, place)
                    figures = re.findall(r"[\d.,]+ (?:KiB|MiB|GiB|TiB|ms)\b", rows[0][len(name) + 3 :].replace(",", ""))
                    self.assertGreaterEqual(len(figures), 2, place)
                    answers = [
                        run(shlex.split(f"plan {table['plan']} {more}"), folder)
                        for more in ([settings] if isinstance(settings, str) else settings)
                    ]
                    missing = differences(figures, answers)
                    if missing:
                        wrong.append(f"{place}: {', '.join(missing)}: not in\n" + "\n".join(answers))
                    tried += 1
        if wrong:
            self.fail("\n".join(wrong))
        self.assertGreaterEqual(tried, 20)

    def test_nothing_else_shows_what_the_program_says(self):
        wrong = [
            f"{document.name}:{first}: {line}"
            for document in DOCUMENTS
            for _, lines, first in blocks(document.read_text())
            if not any(line.startswith("$ ") for line in lines)
            for line in lines
            if PROGRAM_SAYS.match(line)
        ]
        self.assertEqual(wrong, [], "these blocks don't begin with the command that prints them")

    def test_a_difference_is_found(self):
        words = "a b c d e".split()
        self.assertTrue(agree([words], words))
        self.assertTrue(agree([["a"], ["c"], ["e"]], words))
        self.assertTrue(agree([["a", "b"], []], words))
        self.assertTrue(agree([[], ["c"], []], words))
        for parts in ([["a"]], [["b"], []], [["a"], ["d"]], [["a"], ["c"], ["b"], []], [["a", "b"], ["b", "c"], []]):
            self.assertFalse(agree(parts, words), parts)
        said = "predicted step: 331.2 ms, 49.5k tokens/s\n  arena   24.4 GiB  100.0 %"
        self.assertEqual(without_numbers(["liver_7:12", "1,024", "3.5%"]), ["liver_0:0", "0", "0%"])
        self.assertEqual(differences(["24.4 GiB", "331 ms"], [said]), [])
        self.assertEqual(differences(["4.4 GiB", "24.4 MiB", "332 ms"], [said]), ["4.4 GiB", "24.4 MiB", "332 ms"])
        text = "Of `run.yaml`:\n\n    model: 1\n\nthen\n\n    $ plimsoll plan \\\n      run.yaml\n    x … y\n    …\n    $ plimsoll a\n    b\n"
        found = list(blocks(text))
        self.assertEqual([(before, first) for before, _, first in found], [("Of `run.yaml`:", 3), ("then", 7)])
        self.assertEqual(
            list(examples(found[1][1])), [(["plan", "run.yaml"], [["x"], ["y"], []]), (["a"], [["b"]])]
        )


if __name__ == "__main__":
    unittest_xml.main()
