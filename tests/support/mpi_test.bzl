"""Programs under mpirun, with several numbers of ranks in turn."""

def mpi_test(name, program, ranks = [2, 3, 4], arguments = [], size = "small", **kwargs):
    """A test that passes when every rank of every run exits with 0.

    Args:
      name: its name.
      program: the label of the program, a test of GoogleTest with mpi_test_main for example.
      ranks: the numbers of ranks.
      arguments: of the program.
      size: as of any test.
      **kwargs: of sh_test.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tests/support:mpirun"],
        args = [",".join([str(count) for count in ranks]), "$(location %s)" % program] + arguments,
        data = [program],
        **kwargs
    )

def ranks_test(name, deps, ranks = [2, 4], size = "small"):
    """A GoogleTest whose ranks compute together: NAME_test, of NAME_test.cc, which NAME_mpi_test starts.

    Args:
      name: the stem of both.
      deps: of the test, beside GoogleTest with mpi_test_main.
      ranks: the numbers of ranks.
      size: of NAME_mpi_test.
    """
    native.cc_test(
        name = name + "_test",
        size = "small",
        srcs = [name + "_test.cc"],
        tags = ["manual"],  # alone it has nothing to test
        deps = deps + [
            "//tests/support:mpi_test_main",
            "//third_party:gtest",
        ],
    )
    mpi_test(
        name = name + "_mpi_test",
        program = ":%s_test" % name,
        ranks = ranks,
        size = size,
        tags = ["exclusive"],  # ranks that wait for a processor wait for one another
    )
