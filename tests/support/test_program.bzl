"""A folder's tests as one program: linked once, and compiled many files at a time."""

load("//:tools/merged.bzl", "TESTS", "merged_sources")

def test_program(name, srcs, deps, apart = [], main = "//third_party:gtest_main", **kwargs):
    """A cc_test of several *_test.cc. What they call hot belongs into a library among deps.

    Args:
      name: its name.
      srcs: the files of test cases.
      deps: libraries, beside GoogleTest.
      apart: of srcs, those that define something behind their unnamed namespace.
      main: the library with main().
      **kwargs: of cc_test.
    """
    native.cc_test(
        name = name,
        srcs = merged_sources(name, srcs, apart),
        copts = TESTS,
        deps = deps + [
            main,
            "//third_party:gtest",
        ],
        **kwargs
    )
