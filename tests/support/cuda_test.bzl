"""Tests of CUDA code: libraries of cases, which one program links (//tests:cuda_test)."""

load("//:tools/merged.bzl", "TESTS", "merged_sources")

def cuda_cases(name, srcs, deps, apart = []):
    """Cases that need --config=cuda and, to do more than skip, a GPU. Without that configuration: none.

    Args:
      name: its name.
      srcs: *_test.cc; each case starts with PLIMSOLL_NEEDS_CUDA (tests/support/needs_cuda.h).
      deps: libraries, beside GoogleTest.
      apart: of srcs, those that define something behind their unnamed namespace.
    """
    native.cc_library(
        name = name,
        srcs = select({
            "//:cuda": merged_sources(name, srcs, apart),
            "//conditions:default": [],
        }),
        copts = TESTS,
        alwayslink = True,
        deps = deps + [
            "//tests/support:cuda_device",
            "//third_party:gtest",
        ],
    )
