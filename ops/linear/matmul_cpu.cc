// c = op(a) · op(b) for each index of the leading dimensions. If the matrices are few or large, one
// GEMM after another runs, each on all threads. If they are many and small, each is a task for one
// thread with its own workspace. GEMM gives the same bits either way. Bytes: every argument once.
#include <algorithm>

#include "ops/cpu/packed_gemm.h"
#include "ops/kernel.h"
#include "ops/linear/gemm_workspace.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::Shape;

// A product with fewer multiply-adds takes one thread less than about 50 µs.
constexpr int64_t kSmall = int64_t{1} << 22;
constexpr int64_t kManyProducts = 8;

struct Dimensions {
  int64_t batch = 1, m, n, k;
  bool many_small() const { return batch >= kManyProducts && m * n * k <= kSmall; }
};

Dimensions DimensionsOf(const Shape& a, const Shape& b, const graph::Attributes& attributes) {
  const bool trans_a = attributes.GetBool("trans_a");
  Dimensions d;
  for (int i = 0; i < a.rank() - 2; ++i) d.batch *= a.dim(i);
  d.m = a.dim(trans_a ? -1 : -2);
  d.k = a.dim(trans_a ? -2 : -1);
  d.n = b.dim(attributes.GetBool("trans_b") ? -2 : -1);
  return d;
}

// The bytes for each thread, a multiple of the alignment.
int64_t ThreadBytes(const Dimensions& d, graph::DType dtype) {
  return (GemmBytes(dtype, d.m, d.n, d.k) + 63) / 64 * 64;
}

void Matmul(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const Dimensions d = DimensionsOf(ctx.in_shape(0), ctx.in_shape(1), ctx.attributes);
    const auto product = [&](int64_t i) {
      cpu::GemmArgs<S> args;
      args.trans_a = ctx.attributes.GetBool("trans_a");
      args.trans_b = ctx.attributes.GetBool("trans_b");
      args.m = d.m;
      args.n = d.n;
      args.k = d.k;
      args.a = ctx.in<S>(0) + i * d.m * d.k;
      args.lda = ctx.in_shape(0).dim(-1);
      args.b = ctx.in<S>(1) + i * d.k * d.n;
      args.ldb = ctx.in_shape(1).dim(-1);
      args.c = ctx.out<S>(0) + i * d.m * d.n;
      args.ldc = d.n;
      return args;
    };
    if (!d.many_small()) {
      for (int64_t i = 0; i < d.batch; ++i) {
        cpu::Gemm(ctx.pool, product(i), ctx.workspace, ctx.workspace_bytes);
      }
      return;
    }
    const int64_t bytes = ThreadBytes(d, ctx.inputs[0].type.dtype);
    ctx.pool.ParallelForWorker(d.batch, 1, [&](int64_t begin, int64_t end, int worker) {
      char* const workspace = static_cast<char*>(ctx.workspace) + worker * bytes;
      for (int64_t i = begin; i < end; ++i) cpu::GemmSerial(product(i), workspace, bytes);
    });
  });
}

int64_t Workspace(const OpCall& call, int threads) {
  const graph::DType dtype = call.input(0).dtype;
  const Dimensions d = DimensionsOf(call.input(0).shape, call.input(1).shape, call.attributes);
  return d.many_small() ? threads * ThreadBytes(d, dtype) : GemmBytes(dtype, d.m, d.n, d.k);
}

const CpuKernelRegistration kMatmul({"matmul", &Matmul, &Workspace});

}  // namespace
}  // namespace plimsoll::ops
