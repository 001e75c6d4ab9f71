#!/usr/bin/python3
"""TensorBoard reads what a run wrote for it.

usage: tensorboard_test.py PLIMSOLL   the program
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent  # of the source: runfiles are links to it
sys.path[:0] = ["third_party/tensorboard", str(HERE.parent / "support")]

import unittest_xml  # noqa: E402

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError:
    event_accumulator = None

CONFIG = """
model: {family: gpt2, layers: 1, width: 16, heads: 2, sequence: 16, vocab: 32}
data: {synthetic: true}
train: {steps: 12, micro_batch: 2, eval_every: 4, log_every: 0, threads: 1}
memory: {calibrate: false}
"""


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class EventFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if event_accumulator is None:
            return
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        config = pathlib.Path(folder.name, "run.yaml")
        config.write_text(CONFIG)
        cls.run_folder = pathlib.Path(folder.name, "run")
        command = [sys.argv[1], "train", config, "--set", f"run.dir={cls.run_folder}"]
        # Seven steps, then again from the fifth on: nothing of the last two steps may remain.
        snapshots = ["--set", "save.every=5", "--set", "save.on_exit=false"]
        stopped = [*command, *snapshots, "--set", "train.stop_after=7"]
        subprocess.run(stopped, check=True, stdout=subprocess.DEVNULL)
        second = int(time.time())
        while int(time.time()) == second:  # files are ordered by their names, which have seconds
            time.sleep(0.01)
        resumed = [*command, *snapshots, "--resume", "auto"]
        subprocess.run(resumed, check=True, stdout=subprocess.DEVNULL)
        everything = {"scalars": 0, "tensors": 0}
        cls.events = event_accumulator.EventAccumulator(str(cls.run_folder), everything)
        cls.events.Reload()

    def setUp(self):
        if event_accumulator is None:
            self.skipTest("TensorBoard is not installed: ./setup.sh --reports")

    def test_has_every_number_of_the_metrics(self):
        expected = {}
        for line in (self.run_folder / "metrics.jsonl").read_text().splitlines():
            row = json.loads(line)
            step = row.pop("step")
            for key, value in row.items():
                if value is not None:
                    tag = f"eval/{key[5:]}" if key.startswith("eval_") else f"train/{key}"
                    expected.setdefault(tag, []).append((step, as_float32(value)))
        self.assertEqual(len(expected["train/loss"]), 12)
        self.assertEqual(len(expected["eval/loss"]), 4)
        found = {
            tag: [(event.step, event.value) for event in self.events.Scalars(tag)]
            for tag in self.events.Tags()["scalars"]
        }
        self.assertEqual(found, expected)

    def test_times_pass(self):
        times = [event.wall_time for event in self.events.Scalars("train/loss")]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 1.6e9)  # seconds since 1970

    def test_has_the_configuration_as_text(self):
        self.assertEqual(self.events.SummaryMetadata("config").plugin_data.plugin_name, "text")
        started, resumed = self.events.Tensors("config")
        self.assertEqual([started.step, resumed.step], [0, 5])
        lines = resumed.tensor_proto.string_val[0].decode().split("\n")
        config = (self.run_folder / "config.yaml").read_text().split("\n")
        self.assertEqual([line[4:] for line in lines], config)


if __name__ == "__main__":
    unittest_xml.main()
