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

    def test_rows_of_the_bench(self):
        cases = list(attention_peer.cases())
        self.assertEqual(len(cases), 216)
        self.assertEqual([case["case"] for case in cases[:2]], ["bf16/40/causal/0 forward", "bf16/40/causal/0 backward"])
        self.assertEqual(cases[0]["in"], [[32, 1024, 2280], None])
        padded = next(case for case in cases if "padded" in case["case"])
        lengths = padded["in"][-1]["values"]
        self.assertEqual((min(lengths), max(lengths), len(lengths)), (523, 1024, 32))
        ours = attention_peer.read_paths([
            "# A GPU, of 9 cores: copies 4000 GB/s, products 800 TFLOP/s in 16 bits, 400 in tf32, 50 in f32",
            "times,us,GB/s,TFLOP/s,share,\"case\"",
            "1,200.0,1000,90,0.5,\"bf16/64/full/0 forward: attention bf16[32,1024,2304] - causal=false\"",
            "1,100.0,3000,90,0.5,\"bf16/64/full/0 backward: attention_backward bf16[32,1024,2304]\"",
            "1,100.0,3000,90,0.5,\"bf16/96/full/0 backward: attention_backward bf16[32,1024,2304]\"",
            "# 0.3 ms in all, at best 0.2 ms; geometric mean of the shares 0.5"])
        self.assertEqual((ours["device"], ours["copy_gb_per_s"], ours["tf32_tflops"]), ("A GPU, of 9 cores", 4000, 400))
        (path,) = ours["rows"]
        self.assertEqual((path["width"], path["mask"]), (64, "full"))
        self.assertAlmostEqual(path["forward"]["ms"], 0.2)
        # 4 FLOPs for each of 32 · 12 · 1024² scores and each of 64 elements, at 800 TFLOP/s.
        self.assertAlmostEqual(path["forward"]["share"], 32 * 12 * 1024**2 * 4 * 64 / 800e12 / 200e-6)
        self.assertAlmostEqual(path["backward"]["share"], 10 / 4 * 2 * path["forward"]["share"])
        path = attention_peer.read_paths([
            "# A GPU: copies 4000 GB/s, products 8000 TFLOP/s in 16 bits, 400 in tf32, 50 in f32",
            "times,us,GB/s,TFLOP/s,share,\"case\"",
            *(f"1,200.0,3000,90,0.5,\"tf32/40/causal/0.1 {name}: …\"" for name in ("forward", "backward"))])["rows"][0]
        self.assertEqual(path["forward"]["share"], 0.75)

    def test_without_pytorch(self):
        text = attention_peer.document(OURS, None)
        self.assertIn("| bf16, 64 | 1.000 (60 %) | 3.000 (20 %) |", text)
        self.assertNotIn("PyTorch", text)
        self.assertIn("PyTorch 9", attention_peer.document(OURS, PEER))


if __name__ == "__main__":
    unittest_xml.main()
