#!/usr/bin/env python3
"""bench/masked_batches.py makes the rows that the source masked_text fills, which a test of its own reads, too."""
import json
import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(folder).resolve()) for folder in ("tests/support", "bench")]
import masked_batches  # noqa: E402
import unittest_xml  # noqa: E402

GOLDEN = json.loads(pathlib.Path("tests/data/testdata/masked_rows.json").read_text())


class Vocabulary:
    size, pad, start, separator, mask, special = 20, 0, 2, 3, 4, [0, 1, 2, 3, 4]


class MaskedBatches(unittest.TestCase):
    def test_rows(self):
        text = masked_batches.MaskedBatches(GOLDEN["stream"], Vocabulary, GOLDEN["sequence"], GOLDEN["seed"])
        kinds = set()
        for row in GOLDEN["rows"]:
            tokens, targets = text.sample(row["sample"])
            self.assertEqual((tokens, targets), (row["tokens"], row["targets"]))
            for token, target in zip(tokens, targets):
                if target != masked_batches.IGNORED:
                    kinds.add("mask" if token == Vocabulary.mask else "same" if token == target else "random")
        self.assertEqual(kinds, {"mask", "same", "random"})
        self.assertTrue(any(Vocabulary.pad in row["tokens"] for row in GOLDEN["rows"]))

    def test_an_epoch_is_a_permutation(self):
        for n in (1, 2, 3, 17, 64):
            order = masked_batches.Permutation(n, 5)
            self.assertEqual(sorted(order(i) for i in range(n)), list(range(n)))


if __name__ == "__main__":
    unittest_xml.main()
