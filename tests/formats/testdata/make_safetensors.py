"""Makes the .safetensors files here with another implementation: the PyPI package safetensors 0.5.3.

usage: python3 tests/formats/testdata/make_safetensors.py      (needs numpy and safetensors)
"""

import os
import struct

import numpy as np
from safetensors import serialize_file
from safetensors.numpy import save_file

FOLDER = os.path.dirname(os.path.abspath(__file__))

save_file(
    {
        "f32": np.array([[1.5, -2.25, 3.0], [0.0, 1e-40, 65504.0]], np.float32),
        "f16": np.array([1.0, -0.5, 65504.0, 2.0**-24], np.float16),
        "f64": np.array([0.1, -1e300], np.float64),
        "i64": np.array([-1, 2**62], np.int64),
        "i8": np.array([[-128], [127]], np.int8),
        "flags": np.array([True, False, True]),
        "scalar": np.array(7.0, np.float32),
        "empty": np.zeros((0, 4), np.float32),
    },
    os.path.join(FOLDER, "numpy.safetensors"),
    metadata={"format": "np", "note": "écrit ailleurs"},
)
bf16 = struct.pack("<4H", 0x3F80, 0xC000, 0x0001, 0x7F80)  # 1, -2, 2^-133, infinity
serialize_file(
    {"bf16": {"dtype": "bfloat16", "shape": [2, 2], "data": bf16}},
    os.path.join(FOLDER, "bf16.safetensors"),
)
