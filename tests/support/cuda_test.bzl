"""cuda_test: a test of CUDA code. Without --config=cuda it is one case that skips and says so."""

def cuda_test(name, srcs, deps = [], **kwargs):
    """A test that needs --config=cuda and, to do more than skip, a GPU.

    Args:
      name: its name.
      srcs: sources; each case starts with PLIMSOLL_NEEDS_CUDA (tests/support/needs_cuda.h).
      deps: libraries, gtest_main among them.
      **kwargs: of cc_test.
    """
    native.cc_test(
        name = name,
        srcs = select({
            "//:cuda": srcs,
            "//conditions:default": ["//tests/support:no_cuda.cc"],
        }),
        deps = deps + ["//tests/support:cuda_device"],
        **kwargs
    )
