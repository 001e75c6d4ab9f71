#!/usr/bin/python3
"""tools/frechet_distance.py, where the distance is known in closed form."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(folder).resolve()) for folder in ("tests/support", "tools")]
import unittest_xml  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
else:
    import frechet_distance as tool


def samples(covariance, mean, count=64):
    """Features with exactly this mean and covariance."""
    width = len(mean)
    noise = numpy.random.default_rng(1).standard_normal((count, width))
    noise -= noise.mean(axis=0)
    white = noise @ numpy.linalg.inv(numpy.linalg.cholesky(numpy.cov(noise, rowvar=False))).T
    return white @ numpy.linalg.cholesky(covariance).T + mean


class Distance(unittest.TestCase):
    def setUp(self):
        if numpy is None:
            self.skipTest("NumPy is not installed: ./setup.sh --reports")

    def test_covariances_that_commute(self):
        # The same axes: the sum of (σ_a − σ_b)² besides the distance of the means.
        turn, _ = numpy.linalg.qr(numpy.random.default_rng(2).standard_normal((3, 3)))
        a = samples(turn @ numpy.diag([1, 4, 9]) @ turn.T, [1, 2, 3])
        b = samples(turn @ numpy.diag([4, 16, 1]) @ turn.T, [1, 0, 4])
        self.assertAlmostEqual(tool.distance(a, b), (1 + 4 + 4) + (4 + 1), places=9)
        self.assertAlmostEqual(tool.distance(b, a), tool.distance(a, b), places=9)

    def test_covariances_that_do_not_commute(self):
        # Of two dimensions: tr √M = √(tr M + 2 √det M), with M = S_a S_b.
        of_a, of_b = numpy.array([[2, 1], [1, 3]]), numpy.array([[5, -2], [-2, 1]])
        product = of_a @ of_b
        root = numpy.sqrt(numpy.trace(product) + 2 * numpy.sqrt(numpy.linalg.det(product)))
        expected = 9 + numpy.trace(of_a) + numpy.trace(of_b) - 2 * root
        self.assertAlmostEqual(tool.distance(samples(of_a, [0, 0]), samples(of_b, [0, 3])),
                               expected, places=9)

    def test_one_number_a_sample(self):
        self.assertAlmostEqual(tool.distance([[1.0], [3.0]], [[6.0], [10.0]]),
                               36 + (2 ** 0.5 - 8 ** 0.5) ** 2)

    def test_features_that_are_never_active(self):
        # More features than samples, some of them always 0, as behind a ReLU.
        features = numpy.random.default_rng(3).standard_normal((20, 50)).clip(min=0)
        features[:, ::5] = 0
        self.assertAlmostEqual(tool.distance(features, features), 0, places=9)
        self.assertAlmostEqual(tool.distance(features, features + 2), 50 * 4, places=9)

    def run_tool(self, *arguments):
        command = [sys.executable, pathlib.Path("tools/frechet_distance.py").resolve(), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_files(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            a = samples(numpy.diag([1, 4]), [0, 0]).astype(numpy.float32)
            numpy.save(folder / "a.npy", a)
            numpy.save(folder / "b.npy", a + 3)
            numpy.save(folder / "wide.npy", numpy.ones((3, 5), numpy.float32))
            numpy.save(folder / "flat.npy", numpy.ones(3, numpy.float32))
            numpy.save(folder / "nan.npy", numpy.full((3, 2), numpy.nan, numpy.float32))
            (folder / "text.npy").write_text("text")
            both = self.run_tool(folder / "a.npy", folder / "b.npy")
            self.assertEqual(both.returncode, 0, both.stderr)
            self.assertAlmostEqual(float(both.stdout), 18, places=4)
            half = [self.run_tool(folder / "a.npy", "--halves").stdout for _ in range(2)]
            self.assertEqual(half[0], half[1])
            self.assertGreater(float(half[0]), 0.001)
            self.assertLess(float(half[0]), 1)
            for arguments, part in (((["a.npy"]), "--halves"),
                                    (["a.npy", "b.npy", "--halves"], "--halves: compares"),
                                    (["a.npy", "wide.npy"], "features of 2 and 5 numbers"),
                                    (["a.npy", "flat.npy"], "[samples, width] are expected"),
                                    (["a.npy", "nan.npy"], "NaN"),
                                    (["a.npy", "missing.npy"], "missing.npy: is no file"),
                                    (["text.npy", "a.npy"], "text.npy: is no file")):
                refused = self.run_tool(*[folder / argument if argument.endswith(".npy")
                                          else argument for argument in arguments])
                self.assertEqual(refused.returncode, 1)
                self.assertEqual(refused.stdout, "")
                self.assertIn(part, refused.stderr)


if __name__ == "__main__":
    unittest_xml.main()
