#!/usr/bin/env python3
"""The plans of configs/bench take the bytes and the time that configs/bench/plans.json says (bench/plan_baseline.py).

usage: plan_baseline_test.py PLIMSOLL
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path("tests/support").resolve()))
sys.path.insert(0, str(pathlib.Path("bench").absolute()))
sys.dont_write_bytecode = True
import plan_baseline  # noqa: E402
import unittest_xml  # noqa: E402

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
BASELINE = json.loads(pathlib.Path("configs/bench/plans.json").read_text())
SMALL = plan_baseline.REPOSITORY / "configs/bench/resnet-50.yaml"


class PlanBaseline(unittest.TestCase):
    def test_plans_are_those_of_the_baseline(self):
        found = list(plan_baseline.differences(PROGRAM, BASELINE))
        words = "".join(f"configs/bench/{name}.yaml\n{text}\n" for name, text in found)
        self.assertEqual(words, "", "if this is meant: python3 bench/plan_baseline.py bazel-bin/app/plimsoll --write")

    def test_every_change_of_bytes_counts(self):
        entry = BASELINE[SMALL.stem]
        for member in ("arena_bytes", "host_arena_bytes"):
            for change in (-64, 64):
                changed = dict(entry, **{member: max(0, entry[member] + change)})
                words = plan_baseline.difference(PROGRAM, SMALL, changed)
                self.assertEqual("→" in words, changed != entry, words)
        roles = dict(entry["bytes_by_role"], workspace=entry["bytes_by_role"]["workspace"] - 64)
        words = plan_baseline.difference(PROGRAM, SMALL, dict(entry, bytes_by_role=roles))
        self.assertIn("workspace", words)

    def test_a_tenth_of_a_percent_of_time_counts(self):
        entry = BASELINE[SMALL.stem]
        for factor, counts in ((1.0005, False), (0.9995, False), (1.002, True), (0.998, True)):
            changed = dict(entry, predicted_step_ms=entry["predicted_step_ms"] * factor)
            self.assertEqual(bool(plan_baseline.difference(PROGRAM, SMALL, changed)), counts, factor)

    def test_files_and_entries_belong_together(self):
        files = [SMALL]
        original, plan_baseline.run_files = plan_baseline.run_files, lambda: files
        try:
            self.assertEqual([name for name, _ in plan_baseline.differences(PROGRAM, {"gone": {}})],
                             ["gone", SMALL.stem])
        finally:
            plan_baseline.run_files = original

    def test_writing_gives_the_baseline(self):
        entry = plan_baseline.entry_of(PROGRAM, SMALL)
        self.assertEqual(plan_baseline.difference(PROGRAM, SMALL, entry), "")
        self.assertEqual(set(entry), set(BASELINE[SMALL.stem]))
        self.assertEqual(json.loads(plan_baseline.text_of({SMALL.stem: entry})), {SMALL.stem: entry})
        self.assertEqual(pathlib.Path("configs/bench/plans.json").read_text(), plan_baseline.text_of(BASELINE))


if __name__ == "__main__":
    unittest_xml.main()
