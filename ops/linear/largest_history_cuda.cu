// Computes ops/linear/largest_history.h with one thread for each column. Bytes: history twice.
#include "gpu/check.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 128;

struct Columns {
  int64_t rows, count;
  const float *expected, *pending, *history;
  const int32_t *updates, *apply;  // `apply` is nullptr if updates always apply
  float margin;
  float *next, *kept;  // the elements of `expected` and of `history`
};

__global__ void __launch_bounds__(kThreads) CommitLargestKernel(Columns columns) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= columns.count) return;
  const bool apply = columns.apply == nullptr || *columns.apply != 0;
  const int64_t current = *columns.updates % columns.rows;
  uint32_t largest = 0;
  for (int64_t r = 0; r < columns.rows; ++r) {
    const int64_t at = r * columns.count + i;
    const float value = apply && r == current ? columns.pending[i] : columns.history[at];
    columns.kept[at] = value;
    largest = max(largest, __float_as_uint(value));
  }
  columns.next[i] = apply ? __uint_as_float(largest) * columns.margin : columns.expected[i];
}

void CommitLargest(const CudaContext &ctx) {
  const graph::Shape &history = ctx.in_shape(2);
  const Columns columns = {.rows = history.dim(0),
                           .count = history.dim(1),
                           .expected = ctx.in<float>(0),
                           .pending = ctx.in<float>(1),
                           .history = ctx.in<float>(2),
                           .updates = ctx.in<int32_t>(3),
                           .apply = ctx.in<int32_t>(4),
                           .margin = static_cast<float>(ctx.attributes.GetReal("margin")),
                           .next = ctx.out<float>(0),
                           .kept = ctx.out<float>(1)};
  if (columns.count == 0) return;
  const auto blocks = static_cast<unsigned>((columns.count + kThreads - 1) / kThreads);
  CommitLargestKernel<<<blocks, kThreads, 0, ctx.stream>>>(columns);
  gpu::CheckLaunch("commit_largest");
}

const CudaKernelRegistration kCommitLargest({"commit_largest", &CommitLargest});

}  // namespace
}  // namespace plimsoll::ops
