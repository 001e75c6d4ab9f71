#!/usr/bin/env python3
"""Compares how NIfTI-1 files are read, turned and written with nibabel.

    bazel build //tests/data:volume_copy
    python3 tests/data/check_with_nibabel.py bazel-bin/tests/data/volume_copy

Makes files with nibabel of random sizes, types, byte orders, scalings, units, rotations and shears, and compares of
each its size, affine, values, and its values in RAS+ with nibabel's; reads the copy and the labels that Plimsoll writes
of it with nibabel, which finds them where it finds the file. Files named behind the program are compared as well.
Needs: pip install nibabel.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import nibabel
import numpy

TYPES = ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
MILLIMETRES = {"unknown": 1, "mm": 1, "meter": 1000, "micron": 0.001}


def random_affine(rng, sheared):
    axes = nibabel.quaternions.quat2mat(rng.normal(size=4)) if rng.random() < 0.8 else numpy.eye(3)[rng.permutation(3)]
    if sheared:
        axes = axes @ (numpy.eye(3) + numpy.triu(rng.uniform(-0.3, 0.3, (3, 3)), 1))
    affine = numpy.eye(4)
    affine[:3, :3] = axes @ numpy.diag(rng.uniform(0.3, 5, 3) * rng.choice([-1, 1], 3))
    affine[:3, 3] = rng.uniform(-200, 200, 3)
    return affine


def make(rng, path):
    """Writes a random file; returns the affine that it has in millimetres."""
    shape = tuple(rng.integers(1, 9, 3))
    channels = [(), (1,), (3,), (1, 2)][rng.integers(4)]
    dtype = numpy.dtype(TYPES[rng.integers(len(TYPES))])
    header = nibabel.Nifti1Header(endianness="<>"[rng.integers(2)])
    header.set_data_shape(shape + channels)
    header.set_data_dtype(dtype)
    unit = list(MILLIMETRES)[rng.integers(len(MILLIMETRES))]
    header.set_xyzt_units(unit, "sec")
    kind = ["sform", "qform", "both", "none"][rng.integers(4)]
    header["pixdim"][1:4] = rng.uniform(0.3, 5, 3)
    if kind in ("qform", "both"):
        header.set_qform(random_affine(rng, False), int(rng.integers(1, 5)))
    if kind in ("sform", "both"):
        header.set_sform(random_affine(rng, rng.random() < 0.5), int(rng.integers(1, 5)))
    if rng.random() < 0.3:
        header.extensions.append(nibabel.nifti1.Nifti1Extension(6, bytes(rng.integers(1, 60))))
    slope, offset = [(numpy.nan, numpy.nan), (0, 5), (1, 0), (2.5, -1024), (-0.1, 3)][rng.integers(5)]
    if dtype.kind == "f":
        values = (rng.normal(size=shape + channels) * 1000).astype(dtype)
    else:
        limits = numpy.iinfo(dtype)
        values = rng.integers(limits.min, limits.max, shape + channels, dtype=dtype, endpoint=True)
    # By hand, since an image of nibabel would choose the scaling itself.
    header["scl_slope"], header["scl_inter"] = slope, offset
    begin = 352 + sum(extension.get_sizeondisk() for extension in header.extensions)
    header["vox_offset"] = begin
    with nibabel.openers.Opener(str(path), "wb") as file:
        header.write_to(file)
        file.write(b"\0" * (begin - file.tell()))
        file.write(values.astype(header.get_data_dtype()).tobytes(order="F"))
    if kind == "none":
        affine = numpy.diag([*header["pixdim"][1:4], 1])
    else:
        affine = header.get_best_affine()
    return numpy.diag([MILLIMETRES[unit]] * 3 + [1]) @ affine


def canonical(values, affine):
    """Values [x,y,z,C] and spacing in RAS+."""
    orientation = nibabel.io_orientation(affine)
    turned = nibabel.apply_orientation(values, orientation)
    spacing = numpy.linalg.norm(affine[:3, :3], axis=0)
    return turned, [spacing[int(numpy.flatnonzero(orientation[:, 0] == axis)[0])] for axis in range(3)]


def check(program, path, affine):
    image = nibabel.load(path)
    values = numpy.asarray(image.dataobj).astype(numpy.float32)
    values = values.reshape(*values.shape[:3], -1)
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([program, str(path), folder], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        told = json.loads(run.stdout)
        assert told["size"] == list(values.shape[:3]) and told["channels"] == values.shape[3], told
        scale = abs(affine).max()
        numpy.testing.assert_allclose(numpy.reshape(told["affine"], (3, 4)), affine[:3], rtol=0, atol=1e-6 * scale)
        read = numpy.fromfile(f"{folder}/values", numpy.float32).reshape(values.T.shape)
        numpy.testing.assert_allclose(read, values.T, rtol=1e-7)

        turned, spacing = canonical(values, affine)
        assert told["ras_size"] == list(turned.shape[2::-1]), told
        numpy.testing.assert_allclose(told["spacing"], spacing[::-1], rtol=1e-5)
        ras = numpy.fromfile(f"{folder}/ras", numpy.float32).reshape(*turned.shape[2::-1], -1)
        numpy.testing.assert_allclose(ras, turned.transpose(2, 1, 0, 3), rtol=1e-7)

        copy = nibabel.load(f"{folder}/copy.nii.gz")
        numpy.testing.assert_array_equal(numpy.asarray(copy.dataobj).reshape(values.shape), read.T)
        labels = nibabel.load(f"{folder}/labels.nii.gz")
        assert labels.get_data_dtype() == numpy.uint8 and labels.shape == values.shape[:3]
        expected = (numpy.arange(turned[..., 0].size) % 251).reshape(turned.shape[2::-1]).T
        numpy.testing.assert_array_equal(canonical(numpy.asarray(labels.dataobj), affine)[0], expected)
        for written in (copy, labels):
            assert written.header.get_xyzt_units() == image.header.get_xyzt_units()
            numpy.testing.assert_array_equal(written.affine, image.affine)
            for form in ("get_qform", "get_sform"):
                matrix, code = getattr(image, form)(coded=True)
                own, own_code = getattr(written, form)(coded=True)
                assert own_code == code, (form, own_code, code)
                if code > 0:
                    numpy.testing.assert_array_equal(own, matrix)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--count", type=int, default=300)
    arguments = parser.parse_args()
    for seed in range(arguments.count):
        rng = numpy.random.default_rng(seed)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / ["a.nii", "a.nii.gz"][seed % 2]
            affine = make(rng, path)
            try:
                check(arguments.program, path, affine)
            except AssertionError as error:
                raise AssertionError(f"file {seed}") from error
    for path in arguments.files:
        check(arguments.program, path, nibabel.load(path).affine)
    print(f"{arguments.count} files of nibabel and {len(arguments.files)} others are read and written alike")


if __name__ == "__main__":
    main()
