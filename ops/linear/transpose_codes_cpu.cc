// transposed = codesᵀ, padded with zeros (ops/linear/transpose_codes.h).
//
// Threads share groups of 16 rows, whose codes are 16 consecutive bytes in each transposed row.
// Bytes: codes once, the result once.
#include "ops/kernel.h"
#include "ops/linear/quantize.h"
#include "ops/linear/transpose_codes.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kGroup = TransposedRow(1);

void TransposeCodes(const CpuContext& ctx) {
  const auto* const codes = static_cast<const uint8_t*>(ctx.inputs[0].data);
  auto* const transposed = static_cast<uint8_t*>(ctx.outputs[0].data);
  const int64_t rows = ctx.in_shape(0).rows(), columns = ctx.in_shape(0).dim(-1);
  const int64_t padded = TransposedRow(rows);
  ctx.pool.ParallelFor(padded / kGroup, 1, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin * kGroup; r < end * kGroup; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        transposed[c * padded + r] = r < rows ? codes[r * columns + c] : uint8_t{0};
      }
    }
  });
}

const CpuKernelRegistration kTransposeCodes({"transpose_codes", &TransposeCodes});

}  // namespace
}  // namespace plimsoll::ops
