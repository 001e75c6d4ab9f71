"""Finds the CUDA toolkit: the repository @cuda, fetched only when --config=cuda asks for it."""

# Where no GPU says what to build for.
_DEFAULT = "90"

def _present(ctx):
    """The compute capabilities of this machine's GPUs, or the default: "86,90"."""
    if ctx.which("nvidia-smi") == None:
        return _DEFAULT
    found = ctx.execute(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], timeout = 20)
    numbers = {line.strip().replace(".", ""): None for line in found.stdout.splitlines()}
    numbers = [number for number in sorted(numbers) if number.isdigit() and int(number) >= 75]
    return ",".join(numbers) if found.return_code == 0 and numbers else _DEFAULT

def _parse(architecture):
    """What one architecture of the list asks nvcc for: features, GPUs whose machine code, and PTX.

    "90" and "90a" ask for machine code, "120+ptx" also for PTX, which later GPUs compile when they first run it, and
    "80:90" for machine code of 9.0 from the features of 8.0, to run on one GPU what another would.
    """
    name, plus, rest = architecture.partition("+")
    features, colon, code = name.partition(":")
    code = code if colon else features
    for one in [features, code]:
        number = one[:-1] if one[-1:].isalpha() else one
        if not number.isdigit() or int(number) < 75 or int(number) > 121 or (plus and rest != "ptx"):
            fail("CUDA_ARCHITECTURES: '%s' is no architecture from 75 to 121 (a list as in 80,90,120+ptx)" % architecture)
    return struct(features = features, code = code, ptx = plus != "")

def _gencode(parsed):
    """The flags of nvcc for one architecture."""
    codes = ["sm_" + parsed.code] + (["compute_" + parsed.features] if parsed.ptx else [])
    return ["-gencode=arch=compute_%s,code=%s" % (parsed.features, code) for code in codes]

def _impl(ctx):
    home = ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    if not ctx.path(home).get_child("bin").get_child("nvcc").exists:
        fail("--config=cuda: no bin/nvcc under %s. Install the CUDA Toolkit (13.0 or newer), name its folder by CUDA_HOME, or build without --config=cuda" % home)
    architectures = ctx.os.environ.get("CUDA_ARCHITECTURES", "").replace(" ", "") or _present(ctx)
    parsed = [_parse(architecture) for architecture in architectures.split(",")]
    ctx.symlink(ctx.path(home).get_child("include"), "include")

    # NCCL is a package of its own: in the toolkit, the system, or where NCCL_HOME says.
    homes = [h for h in [ctx.os.environ.get("NCCL_HOME", ""), home, "/usr/local", "/usr"] if h]
    homes = [h for h in homes if ctx.path(h + "/include/nccl.h").exists]
    if not homes:
        fail("--config=cuda: no nccl.h in %s/include or /usr/include. Install NCCL (libnccl-dev), name its folder by NCCL_HOME, or build without --config=cuda" % home)
    ctx.symlink(homes[0] + "/include/nccl.h", "nccl/nccl.h")
    libraries = [homes[0] + "/" + d for d in ["lib64", "lib"] if ctx.path(homes[0] + "/" + d + "/libnccl.so").exists]
    nccl_linkopts = ["-L" + libraries[0], "-Wl,-rpath," + libraries[0]] if libraries else []

    # Code for sm_90a has all of Hopper's instructions and runs on no other generation. Hopper's files
    # are empty for others, which then need them for one architecture only: host code is in them, too.
    hopper = [one for one in parsed if one.features in ["90", "90a"]]
    hopper = [struct(features = "90a", code = "90a", ptx = False)] if hopper else parsed[:1]

    # Of 8 bits. GPUs of 8.6 and 8.9 run the code of 8.0, and those of 8.9 convert to 8 bits by instructions of theirs.
    names = [one.features for one in parsed]
    float8 = parsed + ([struct(features = "89", code = "89", ptx = False)] if "80" in names and "89" not in names else [])

    # Lines of the source, for profilers, make code of several architectures too large.
    options = "-lineinfo" if len(parsed) == 1 else "--compress-mode=size"
    for name, targets in {"nvcc.sh": parsed, "nvcc_hopper.sh": hopper, "nvcc_float8.sh": float8}.items():
        flags = " ".join([flag for one in targets for flag in _gencode(one)] + [options])
        substitutions = {"%{home}": home, "%{flags}": flags}
        ctx.template(name, ctx.attr._nvcc_sh, substitutions, executable = True)
    substitutions = {
        "%{architectures}": architectures,
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
