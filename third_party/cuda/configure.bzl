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

    # Code for sm_90a has all of Hopper's instructions and runs on no other generation.
    scripts = {
        "nvcc.sh": architectures,
        "nvcc_hopper.sh": ["90a" if a == "90" else a for a in architectures],
    }
    for name, targets in scripts.items():
        gencode = ["-gencode=arch=compute_%s,code=sm_%s" % (a, a) for a in targets]
        substitutions = {"%{home}": home, "%{targets}": " ".join(gencode)}
        ctx.template(name, ctx.attr._nvcc_sh, substitutions, executable = True)
    substitutions = {"%{architectures}": ",".join(architectures), "%{home}": home}
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
    ],
    local = True,
)
