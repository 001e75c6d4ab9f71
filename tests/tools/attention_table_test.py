#!/usr/bin/env python3
"""bench/attention_peer.py puts each time where it belongs, and finds the share that is too small."""
import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(folder).resolve()) for folder in ("tests/support", "bench")]
import attention_peer  # noqa: E402
import unittest_xml  # noqa: E402


def row(kind, width, mask, dropout, forward, backward):
    """`forward` and `backward`: (milliseconds, share)."""
    return {"type": kind, "width": width, "mask": mask, "dropout": dropout, "batch": 2, "length": 64, "heads": 3,
            "forward": dict(zip(("ms", "share"), forward)), "backward": dict(zip(("ms", "share"), backward))}


ROWS = [
    row("bf16", 64, "causal", 0, (1, 0.6), (2, 0.3)),
    row("bf16", 64, "causal", 0.1, (3, 0.2), (8, 0.09)),
    row("bf16", 128, "causal", 0, (4, 0.5), (5, 0.3)),
    row("tf32", 64, "causal", 0, (6, 0.01), (7, 0.02)),
]
OURS = {"device": "A GPU", "bf16_tflops": 800, "tf32_tflops": 400, "copy_gb_per_s": 4000, "rows": ROWS}
PEER = {"version": "9", "times": {"bf16/64/causal/0": {"forward": 2, "backward": 1},
                                  "bf16/64/causal/0.1": {"forward": 4.5, "backward": 16},
                                  "tf32/64/causal/0": {"error": "no kernel"}}}


class AttentionTable(unittest.TestCase):
    def test_cells(self):
        self.assertEqual(attention_peer.table(ROWS, "forward", PEER["times"]), [
            "| forward: type, width | causal | causal, dropout 0.1 |",
            "|---|---|---|",
            "| bf16, 64 | 1.000 (60 %) / 2.000 | 3.000 (20 %) / 4.500 |",
            "| bf16, 128 | 4.000 (50 %) | – |",
            "| tf32, 64 | 6.000 (1 %) / – | – |",
        ])

    def test_shares_are_compared_within_a_type_and_a_pass(self):
        found = {(e["type"], e["pass"]): e for e in attention_peer.extremes(ROWS)}
        self.assertEqual({k: e["holds"] for k, e in found.items()},
                         {("bf16", "forward"): True, ("bf16", "backward"): False,
                          ("tf32", "forward"): True, ("tf32", "backward"): True})
        self.assertEqual(found["bf16", "backward"]["worst"], 0.09)
        self.assertIn("| bf16, backward | 30.0 % (64, causal) | 10.0 % | 9.0 % (64, causal, dropout 0.1) | missed |",
                      attention_peer.extremes_table(ROWS))

    def test_ratios_to_pytorch(self):
        self.assertEqual(attention_peer.speedups(ROWS, PEER["times"])[2:], [
            "| bf16, forward | 1.50 (64, causal, dropout 0.1) | 1.75 | 2.00 (64, causal) |",
            "| bf16, backward | 0.50 (64, causal) | 1.25 | 2.00 (64, causal, dropout 0.1) |",
        ])

    def test_without_pytorch(self):
        text = attention_peer.document(OURS, None)
        self.assertIn("| bf16, 64 | 1.000 (60 %) | 3.000 (20 %) |", text)
        self.assertNotIn("PyTorch", text)
        self.assertIn("PyTorch 9", attention_peer.document(OURS, PEER))


if __name__ == "__main__":
    unittest_xml.main()
