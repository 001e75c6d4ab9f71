package(default_visibility = ["//visibility:public"])

exports_files([
    "nvcc.sh",
    "nvcc_float8.sh",
    "nvcc_hopper.sh",
])

cc_library(
    name = "headers",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/**",
        "include/cccl/**",
        "include/nvtx3/**",
    ]),
    defines = ["PLIMSOLL_CUDA_ARCHITECTURES=\\\"%{architectures}\\\""],
    includes = [
        "include",
        "include/cccl",
    ],
)

# What say which versions of the libraries are here.
filegroup(
    name = "version_headers",
    srcs = [
        "include/cublas_api.h",
        "include/cuda.h",
        "include/cudnn_version.h",
        "nccl/nccl.h",
    ],
)

cc_library(
    name = "cudart",
    linkopts = [
        "-L%{home}/lib64",
        "-Wl,-rpath,%{home}/lib64",
        "-lcudart_static",
        "-ldl",
        "-lrt",
        "-pthread",
    ],
    deps = [":headers"],
)

cc_library(
    name = "cublas_lt",
    linkopts = ["-lcublasLt"],
    deps = [":cudart"],
)

cc_library(
    name = "cudnn",
    linkopts = ["-lcudnn"],
    deps = [":cudart"],
)

cc_library(
    name = "nvrtc",
    linkopts = ["-lnvrtc"],
    deps = [":cudart"],
)

cc_library(
    name = "nccl",
    hdrs = ["nccl/nccl.h"],
    includes = ["nccl"],
    linkopts = [%{nccl_linkopts}],
    deps = [":cudart"],
)
