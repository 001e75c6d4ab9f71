"""Programs under mpirun, with several numbers of ranks in turn."""

def mpi_test(name, program, ranks = [2, 3, 4], cases = None, arguments = [], size = "small", tags = [], **kwargs):
    """A test that passes when every rank of every run exits with 0.

    Args:
      name: its name.
      program: the label of the program, a test of GoogleTest with mpi_test_main for example.
      ranks: the numbers of ranks.
      cases: of a test of GoogleTest: which ones, as --gtest_filter takes them. Default: all.
      arguments: of the program.
      size: as of any test.
      tags: further ones.
      **kwargs: of sh_test.
    """
    if cases:
        arguments = ["--gtest_filter=" + cases] + arguments
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tests/support:mpirun"],
        args = [",".join([str(count) for count in ranks]), "$(location %s)" % program] + arguments,
        data = [program],
        tags = tags + ["exclusive"],  # ranks that wait for a processor wait for one another
        **kwargs
    )
