// select_rows copies one row per batch entry, on the calling thread. Bytes: 2·B·D·s.
#include <cstring>
#include <string>

#include "ops/kernel.h"

namespace plimsoll::ops {
namespace {

void SelectRows(const CpuContext& ctx) {
  const graph::TensorType& x = ctx.inputs[0].type;
  const int64_t sequence = x.shape.dim(1);
  const int64_t row_bytes = x.shape.dim(2) * graph::ByteSize(x.dtype);
  const int32_t* index = ctx.in<int32_t>(1);
  for (int64_t b = 0; b < x.shape.dim(0); ++b) {
    if (index[b] < 0 || index[b] >= sequence) {
      throw InternalError("select_rows: row " + std::to_string(index[b]) + " of " +
                          std::to_string(sequence));
    }
    std::memcpy(ctx.out<char>(0) + b * row_bytes,
                ctx.in<char>(0) + (b * sequence + index[b]) * row_bytes, row_bytes);
  }
}

const CpuKernelRegistration kSelectRows({"select_rows", &SelectRows});

}  // namespace
}  // namespace plimsoll::ops
