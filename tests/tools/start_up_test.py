#!/usr/bin/env python3
"""What bench/start_up.py reads from a run, what it holds a start to, and the checkpoints that it writes.

usage: start_up_test.py PLIMSOLL
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path("tests/support").resolve()))
sys.path.insert(0, str(pathlib.Path("bench").resolve()))
sys.dont_write_bytecode = True
import start_up  # noqa: E402
import unittest_xml  # noqa: E402

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
SMALL = {"layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "ffn_width": 96, "vocab": 128, "max_sequence": 64,
         "norm_eps": 1e-5, "rope_theta": 500000, "tied": False}


def read(lines):
    """Of lines with the times at which they arrive; the run begins at 100."""
    times = iter([100 + at for at, _ in lines])
    return start_up.read_lines((text for _, text in lines), 100, lambda: next(times))


class StartUp(unittest.TestCase):
    def test_the_first_step_ends_with_its_line(self):
        found = read([(0.05, "warning: x\n"), (0.1, "plimsoll 0.1\n"), (0.5, "process …\n"), (3.0, "step  0/2  loss 5\n"),
                      (9.0, "step  1/2\n")])
        self.assertAlmostEqual(found["header_s"], 0.1)
        self.assertAlmostEqual(found["first_step_s"], 3.0)
        self.assertAlmostEqual(found["silence_s"], 2.5)
        self.assertAlmostEqual(found["silence_at_s"], 0.5)
        self.assertIsNone(found["own_line"])

    def test_or_with_what_the_run_says_of_its_start(self):
        found = read([(0.1, "plimsoll 0.1\n"), (2.0, "step  0/1\n"), (2.2, "started in 2.1 s: context 1 s\n"),
                      (9, "done\n")])
        self.assertAlmostEqual(found["first_step_s"], 2.2)
        self.assertAlmostEqual(found["silence_s"], 1.9)
        self.assertEqual(found["own_line"], "started in 2.1 s: context 1 s")

    def test_a_run_that_ends_before_has_no_first_step(self):
        self.assertIsNone(read([(0.1, "plimsoll 0.1\n")])["first_step_s"])

    def test_bounds(self):
        self.assertAlmostEqual(start_up.target({"more": 0.8}, 0.3, 0.1), 1.2)
        self.assertAlmostEqual(start_up.target({"times": 1.3}, 2.0, 8.0), 13.0)
        self.assertAlmostEqual(start_up.target({"checkpoint": "", "times": 1.2}, 0.5, 0.5, 10.0), 13.0)
        self.assertIsNone(start_up.target({"header": 0.2}, 0.0, 0.1))

    def test_a_row_says_whether_its_bounds_are_kept(self):
        starts = [{"step_s": 0.1, "first_step_s": s, "header_s": 0.1, "silence_s": 0.2, "silence_at_s": 0,
                   "own_line": None} for s in (1.0, 1.1, 5.0)]
        for first, floor, kept in ((2.1, 0.3, True), (2.3, 0.3, False), (2.1, 0.1, False)):
            row = start_up.summary({"more": 0.8}, "row", {"first_step_s": first, "host_bytes": 0}, [floor], starts, [])
            self.assertEqual(row["kept"], kept)
            self.assertEqual("too long" in start_up.table([row]), not kept)

    def test_files_of_rows_are_there(self):
        for row in start_up.ROWS.values():
            file = pathlib.Path(row.get("checkpoint", row.get("config")))
            self.assertTrue(file.exists(), file)

    def test_sizes_are_those_of_the_file(self):
        model = start_up.model_of(pathlib.Path("configs/models/llama-8b.yaml").read_text())
        tensors = list(start_up.tensors_of(model))
        self.assertEqual(len(tensors), 3 + 9 * 32)
        self.assertEqual(sum(start_up.size_of(shape) for _, shape in tensors), 2 * 8_030_261_248)
        shards = start_up.shards_of(tensors, start_up.SHARD)
        self.assertEqual(len(shards), 4)
        self.assertEqual([tensor for shard in shards for tensor in shard], tensors)
        for shard in shards:
            self.assertLessEqual(sum(start_up.size_of(shape) for _, shape in shard), start_up.SHARD)

    def test_random_numbers_are_plausible(self):
        numbers = [struct.unpack("<f", b"\0\0" + start_up.random_bf16(1))[0] for _ in range(200)]
        self.assertTrue(all(2**-7 <= abs(number) < 2**-5 for number in numbers))
        self.assertTrue(min(numbers) < 0 < max(numbers))

    def test_a_run_starts_from_such_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            files = start_up.write_checkpoint(folder + "/model", SMALL, shard=40_000)
            self.assertGreater(len(files), 2)
            start_up.forget(files)
            config = pathlib.Path(folder) / "run.json"
            row = start_up.ROWS["llama-8b-lora"]["run"]
            config.write_text(json.dumps({
                **row, "device": "cpu", "amp": {"dtype": "fp32"}, "run": {"dir": folder + "/run"},
                "model": {"init_from": folder + "/model", "sequence": 16}}))
            run = subprocess.run([PROGRAM, "train", config, *(p for s in start_up.SETS for p in ("--set", s))],
                                 capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            found = read([(at, line) for at, line in enumerate(run.stdout.splitlines(), 1)])
            self.assertIsNotNone(found["first_step_s"], run.stdout)
            plan = json.loads(pathlib.Path(folder, "run/plan.json").read_text())
            self.assertEqual(plan["host_arena_bytes"], 0)
            rows = [json.loads(line) for line in pathlib.Path(folder, "run/metrics.jsonl").read_text().splitlines()]
            self.assertTrue(any("step_ms" in row for row in rows))


if __name__ == "__main__":
    unittest_xml.main()
