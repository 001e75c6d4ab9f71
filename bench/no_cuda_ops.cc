#include "base/error.h"
#include "bench/op_device.h"

plimsoll::bench::OpDevice plimsoll::bench::CudaOps(const std::string&, std::optional<int64_t>) {
  throw UserError("this build has no CUDA: bazel run --config=cuda //bench:op");
}
