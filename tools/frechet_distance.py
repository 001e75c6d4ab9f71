#!/usr/bin/env python3
"""The Fréchet distance of two sets of features, each taken as a normal distribution.

    tools/frechet_distance.py made.npy test.npy
    tools/frechet_distance.py test.npy --halves      of one set: between its halves, drawn at random

    |μ_a − μ_b|² + tr(S_a + S_b − 2 (S_a S_b)^½)     Heusel et al. 2017, "GANs Trained by a Two
                                                     Time-Scale Update Rule …", equation 6

with means μ and covariances S. Files are [samples, width], as `plimsoll predict --features` writes
them. With the features of InceptionV3 the number would be the FID; those of another classifier have
another scale, so that only distances by one classifier compare. Few samples make it larger: the
halves of one set say how much. Needs: NumPy.
"""

import argparse
import pathlib
import sys

import numpy


def root(matrix):
    """The square root of a covariance. Rounding may leave eigenvalues below 0, which are 0."""
    values, vectors = numpy.linalg.eigh(matrix)
    return (vectors * numpy.sqrt(values.clip(min=0))) @ vectors.T


def distance(a, b):
    """Of features [samples, width], at least two samples each."""
    a, b = (numpy.asarray(features, dtype=numpy.float64) for features in (a, b))
    covariance_a, covariance_b = (numpy.atleast_2d(numpy.cov(features, rowvar=False))
                                  for features in (a, b))
    # S_a S_b has the eigenvalues of S_a^½ S_b S_a^½; their roots are the singular values of this
    # product, which takes no root of a small number's rounding error.
    singular = numpy.linalg.svd(root(covariance_a) @ root(covariance_b), compute_uv=False)
    difference = a.mean(axis=0) - b.mean(axis=0)
    traces = numpy.trace(covariance_a) + numpy.trace(covariance_b)
    return max(0.0, difference @ difference + traces - 2 * singular.sum())


def halves(features):
    """Two sets of as many samples each, the same whenever it is asked."""
    order = numpy.random.default_rng(0).permutation(len(features))
    half = len(features) // 2
    return features[order[:half]], features[order[half:2 * half]]


def read(path):
    try:
        features = numpy.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: is no file of NumPy's that can be read: {error}")
    if features.ndim != 2 or features.shape[1] < 1 or features.dtype.kind != "f":
        sys.exit(f"{path}: {features.dtype} of shape {features.shape}; floats of [samples, width] "
                 "are expected")
    if not numpy.isfinite(features).all():
        sys.exit(f"{path}: holds NaN or infinity")
    return features


def pair(arguments):
    """The two sets that are asked for."""
    sets = [read(path) for path in arguments.features]
    if arguments.halves:
        if len(sets) > 1:
            sys.exit("--halves: compares the halves of one set; name one file")
        sets = halves(sets[0])
    if len(sets) != 2:
        sys.exit("name two files, or one with --halves")
    if sets[0].shape[1] != sets[1].shape[1]:
        sys.exit(f"features of {sets[0].shape[1]} and {sets[1].shape[1]} numbers: take both from "
                 "one classifier")
    if min(len(features) for features in sets) < 2:
        sys.exit("a covariance needs two samples of each set at least")
    return sets


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", type=pathlib.Path, nargs="+", metavar="FILE.npy")
    parser.add_argument("--halves", action="store_true",
                        help="of one file: between two random halves of its samples")
    print(f"{distance(*pair(parser.parse_args())):.6g}")


if __name__ == "__main__":
    main()
