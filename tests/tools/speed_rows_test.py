#!/usr/bin/env python3
"""README.md's table of speeds shows the figures of bench/speed_rows.json, row for row."""
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path("tests/support").resolve()))
import unittest_xml  # noqa: E402


class SpeedRows(unittest.TestCase):
    def test_the_readme_shows_them(self):
        rows = json.loads(pathlib.Path("bench/speed_rows.json").read_text())
        expected = []
        for row in rows:
            for title, key in ((row.get("title"), "readme"), ("PyTorch", "readme_peer")):
                if key in row:
                    figures = row[key]
                    expected.append(f"| {title} | {figures['step_ms']} | {figures['arena']} | {figures['process']} |")
        readme = pathlib.Path("README.md").read_text()
        table = re.search(r"\| \| ms a step \| arena / tensors \| process \|\n\|[-|]+\|\n((?:\|.*\n)+)", readme)
        self.assertIsNotNone(table)
        self.assertEqual(table[1].splitlines(), expected)

    def test_their_files_are_there(self):
        for row in json.loads(pathlib.Path("bench/speed_rows.json").read_text()):
            self.assertTrue(pathlib.Path(row["config"]).exists(), row["config"])


if __name__ == "__main__":
    unittest_xml.main()
