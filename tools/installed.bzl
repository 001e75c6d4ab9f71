"""The program as it is installed on other machines: by //:dist and //:wheel."""

def installed_program(name, library_folders, deps, **kwargs):
    """A cc_binary that brings its C++ library.

    So it needs no newer one than a machine has. The toolchain says -lstdc++, which is found where only the archive is.
    Libraries of NVIDIA use the machine's own C++ library and must not see our symbols of that. Sanitizers watch calls
    of the shared one, which their builds keep.

    Args:
      name: its name.
      library_folders: where NVIDIA's libraries and MPI are looked for first, from the program's folder.
      deps: of cc_binary.
      **kwargs: of cc_binary.
    """
    native.cc_binary(
        name = name,
        additional_linker_inputs = ["//third_party:static_runtime/libstdc++.a"],
        linkopts = [
            "-Wl,-rpath," + ":".join(["$$ORIGIN/" + folder for folder in library_folders]),
        ] + select({
            "//:sanitize": [],
            "//conditions:default": [
                "-L$(GENDIR)/third_party/static_runtime",
                "-Wl,--exclude-libs,libstdc++.a",
            ],
        }),
        deps = deps + ["//third_party:arc4random"],
        **kwargs
    )
