"""cuda_library: .cu files, compiled by nvcc with --config=cuda and left out without it."""

load("//:tools/merged.bzl", "merged_sources")

_FLAGS = [
    "-std=c++20",
    "-O3",
    "-DNDEBUG",
    "--expt-relaxed-constexpr",
    "--extended-lambda",
    # Kernels that are empty for an architecture leave what they would call unreferenced.
    "-diag-suppress=20012,177",
    "-Xcompiler=-fPIC,-march=x86-64-v3,-Wall,-Wextra",
    "-Werror=all-warnings",
]

def _objects_impl(ctx):
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    objects = []
    for source in ctx.files.srcs:
        stem = ctx.label.name + "/" + source.basename[:-len(".cu")]
        object = ctx.actions.declare_file(stem + ".pic.o")
        unused = ctx.actions.declare_file(stem + ".unused")
        inputs = depset([source] + ctx.files.hdrs, transitive = [context.headers])
        listing = ctx.actions.args()
        listing.add_all(inputs)
        listing.set_param_file_format("multiline")
        listing.use_param_file("%s", use_always = True)
        flags = ctx.actions.args()
        flags.add_all(_FLAGS)
        flags.add_all(ctx.attr.copts)
        flags.add("-c", source)
        flags.add("-o", object)
        flags.add("-I.")
        flags.add_all(context.includes, before_each = "-I")
        flags.add_all(context.quote_includes, before_each = "-I")
        flags.add_all(context.system_includes, before_each = "-isystem")
        flags.add_all(context.defines, format_each = "-D%s")
        ctx.actions.run(
            executable = ctx.executable.nvcc,
            arguments = [listing, unused.path, flags],
            inputs = inputs,
            outputs = [object, unused],
            unused_inputs_list = unused,
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s" % source.short_path,
            use_default_shell_env = True,
        )
        objects.append(object)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _objects_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = True),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "nvcc": attr.label(
            cfg = "exec",
            default = "@cuda//:nvcc.sh",
            executable = True,
            allow_single_file = True,
        ),
    },
)

# Of 14 seconds that a short file takes, the headers take 12.
_MERGED = 5

def cuda_library(name, srcs = [], cuda_srcs = [], float8_srcs = [], hopper_srcs = [], cuda_apart = [], hdrs = [], textual_hdrs = [], copts = [], deps = [], **kwargs):
    """A library of --config=cuda; without that configuration it is empty.

    Args:
      name: its name.
      srcs: C++ sources, for the host's compiler.
      cuda_srcs: .cu files, for nvcc; compiled a few at a time (tools/merged.bzl).
      float8_srcs: .cu files that convert to or from 8-bit floats, for which 8.9 has instructions and 8.0 has none.
      hopper_srcs: .cu files with instructions that only compute capability 9.0 has.
      cuda_apart: those .cu files that are compiled alone: Hopper's always are.
      hdrs: headers of both.
      textual_hdrs: .cuh files.
      copts: flags of nvcc.
      deps: C++ libraries.
      **kwargs: of cc_library.
    """
    cuda_deps = deps + ["@cuda//:headers"]
    objects = []
    for kind, sources in [("", cuda_srcs), ("_float8", float8_srcs), ("_hopper", hopper_srcs)]:
        if not sources:
            continue
        objects.append(":" + name + kind + "_objects")
        _cuda_objects(
            name = name + kind + "_objects",
            srcs = merged_sources(
                name + kind,
                sources,
                apart = sources if kind == "_hopper" else cuda_apart,
                at_most = _MERGED,
                extension = ".cu",
            ),
            hdrs = hdrs + textual_hdrs + sources,
            copts = copts + select({
                "//:racecheck": ["-DPLIMSOLL_RACECHECK"],
                "//conditions:default": [],
            }) + select({
                "//:quick_cuda": ["--Ofast-compile=max"],
                "//conditions:default": [],
            }),
            nvcc = "@cuda//:nvcc" + kind + ".sh",
            deps = cuda_deps,
            tags = ["manual"],
        )
    native.cc_library(
        name = name,
        srcs = select({
            "//:cuda": srcs + objects,
            "//conditions:default": [],
        }),
        hdrs = select({
            "//:cuda": hdrs + textual_hdrs,
            "//conditions:default": [],
        }),
        deps = deps + select({
            "//:cuda": ["@cuda//:cudart"],
            "//conditions:default": [],
        }),
        **kwargs
    )
