"""Finds the CUDA toolkit: the repository @cuda, fetched only when --config=cuda asks for it."""

def _impl(ctx):
    home = ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    if not ctx.path(home).get_child("bin").get_child("nvcc").exists:
        fail("--config=cuda: no bin/nvcc under %s. Install the CUDA Toolkit (13.0 or newer), name its folder by CUDA_HOME, or build without --config=cuda" % home)
    architectures = ctx.os.environ.get("CUDA_ARCHITECTURES", "90").replace(" ", "").split(",")
    for architecture in architectures:
        number = architecture[:-1] if architecture[-1:].isalpha() else architecture
        if not number.isdigit() or int(number) < 75 or int(number) > 121:
            fail("CUDA_ARCHITECTURES: '%s' is no architecture from 75 to 121 (a list as in 80,90,120)" % architecture)
    ctx.symlink(ctx.path(home).get_child("include"), "include")

    # NCCL is a package of its own: in the toolkit, the system, or where NCCL_HOME says.
    homes = [h for h in [ctx.os.environ.get("NCCL_HOME", ""), home, "/usr/local", "/usr"] if h]
    homes = [h for h in homes if ctx.path(h + "/include/nccl.h").exists]
    if not homes:
        fail("--config=cuda: no nccl.h in %s/include or /usr/include. Install NCCL (libnccl-dev), name its folder by NCCL_HOME, or build without --config=cuda" % home)
    ctx.symlink(homes[0] + "/include/nccl.h", "nccl/nccl.h")
    libraries = [homes[0] + "/" + d for d in ["lib64", "lib"] if ctx.path(homes[0] + "/" + d + "/libnccl.so").exists]
    nccl_linkopts = ["-L" + libraries[0], "-Wl,-rpath," + libraries[0]] if libraries else []

    # Code for sm_90a has all of Hopper's instructions and runs on no other generation.
    scripts = {
        "nvcc.sh": architectures,
        "nvcc_hopper.sh": ["90a" if a == "90" else a for a in architectures],
    }
    for name, targets in scripts.items():
        gencode = ["-gencode=arch=compute_%s,code=sm_%s" % (a, a) for a in targets]
        substitutions = {"%{home}": home, "%{targets}": " ".join(gencode)}
        ctx.template(name, ctx.attr._nvcc_sh, substitutions, executable = True)
    substitutions = {
        "%{architectures}": ",".join(architectures),
        "%{home}": home,
        "%{nccl_linkopts}": ", ".join(['"%s"' % o for o in nccl_linkopts + ["-lnccl"]]),
    }
    ctx.template("BUILD", ctx.attr._build_file, substitutions)

cuda_configure = repository_rule(
    implementation = _impl,
    attrs = {
        "_build_file": attr.label(default = "//third_party/cuda:cuda.BUILD.tpl"),
        "_nvcc_sh": attr.label(default = "//third_party/cuda:nvcc.sh.tpl"),
    },
    environ = [
        "CUDA_ARCHITECTURES",
        "CUDA_HOME",
        "NCCL_HOME",
    ],
    local = True,
)
