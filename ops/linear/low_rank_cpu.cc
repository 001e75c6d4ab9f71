// out = y, + scale · u_i · b_iᵀ in each range     y is copied unless out is in its memory
// du_i = scale · dy[columns of i] · b_i
// db_i = scale · dy[columns of i]ᵀ · u_i + acc
//
// One GEMM per range, on all threads, with a row stride that skips the other ranges' columns.
// Bytes: every argument once besides GEMM's packing; with out in place, only the ranges, read and
// written.
#include <algorithm>

#include "ops/cpu/packed_gemm.h"
#include "ops/kernel.h"
#include "ops/linear/gemm_workspace.h"
#include "ops/linear/low_rank.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::Shape;

template <typename T>
void CopyUnlessInPlace(const T* from, T* to, int64_t elements, ThreadPool& pool) {
  if (from == to) return;
  pool.ParallelFor(elements, 1 << 16, [&](int64_t begin, int64_t end) {
    std::copy(from + begin, from + end, to + begin);
  });
}

void AddLowRank(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const Shape &y = ctx.in_shape(0), &u = ctx.in_shape(1);
    const int64_t r = ctx.in_shape(2).dim(1);
    CopyUnlessInPlace(ctx.in<S>(0), ctx.out<S>(0), y.elements(), ctx.pool);
    ForColumnRanges(ctx.attributes, [&](int64_t i, int64_t row, ColumnRange range) {
      cpu::GemmArgs<S> args;
      args.trans_b = true;
      args.m = y.rows();
      args.n = range.columns;
      args.k = r;
      args.alpha = static_cast<Compute<S>>(ctx.attributes.GetReal("scale"));
      args.a = ctx.in<S>(1) + i * r;
      args.lda = u.dim(-1);
      args.b = ctx.in<S>(2) + row * r;
      args.ldb = r;
      args.beta = 1;
      args.c = ctx.out<S>(0) + range.first;
      args.ldc = y.dim(-1);
      cpu::Gemm(ctx.pool, args, ctx.workspace, ctx.workspace_bytes);
    });
  });
}

void Du(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    const Shape& dy = ctx.in_shape(0);
    const int64_t r = ctx.in_shape(1).dim(1);
    ForColumnRanges(ctx.attributes, [&](int64_t i, int64_t row, ColumnRange range) {
      cpu::GemmArgs<S> args;
      args.m = dy.rows();
      args.n = r;
      args.k = range.columns;
      args.alpha = static_cast<Compute<S>>(ctx.attributes.GetReal("scale"));
      args.a = ctx.in<S>(0) + range.first;
      args.lda = dy.dim(-1);
      args.b = ctx.in<S>(1) + row * r;
      args.ldb = r;
      args.c = ctx.out<S>(0) + i * r;
      args.ldc = ctx.out_shape(0).dim(-1);
      cpu::Gemm(ctx.pool, args, ctx.workspace, ctx.workspace_bytes);
    });
  });
}

void Db(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Shape &u = ctx.in_shape(0), &dy = ctx.in_shape(1), &db = ctx.out_shape(0);
    const int64_t r = db.dim(1);
    if (ctx.has_input(2)) {
      CopyUnlessInPlace(ctx.in<T>(2), ctx.out<T>(0), db.elements(), ctx.pool);
    }
    ForColumnRanges(ctx.attributes, [&](int64_t i, int64_t row, ColumnRange range) {
      cpu::GemmArgs<S, S, T> args;
      args.trans_a = true;
      args.m = range.columns;
      args.n = r;
      args.k = dy.rows();
      args.alpha = static_cast<T>(ctx.attributes.GetReal("scale"));
      args.a = ctx.in<S>(1) + range.first;
      args.lda = dy.dim(-1);
      args.b = ctx.in<S>(0) + i * r;
      args.ldb = u.dim(-1);
      args.beta = ctx.has_input(2) ? 1 : 0;
      args.c = ctx.out<T>(0) + row * r;
      args.ldc = r;
      cpu::Gemm(ctx.pool, args, ctx.workspace, ctx.workspace_bytes);
    });
  });
}

// The maximum of `bytes` over the ranges' products, which run one after another.
int64_t Largest(const OpCall& call, FunctionRef<int64_t(int64_t columns)> bytes) {
  int64_t largest = 0;
  ForColumnRanges(call.attributes, [&](int64_t, int64_t, ColumnRange range) {
    largest = std::max(largest, bytes(range.columns));
  });
  return largest;
}

int64_t AddLowRankWorkspace(const OpCall& call, int /*threads*/) {
  const graph::TensorType& y = call.input(0);
  const int64_t r = call.input(2).shape.dim(1);
  return Largest(call, [&](int64_t n) { return GemmBytes(y.dtype, y.shape.rows(), n, r); });
}

int64_t DuWorkspace(const OpCall& call, int /*threads*/) {
  const graph::TensorType& dy = call.input(0);
  const int64_t r = call.input(1).shape.dim(1);
  return Largest(call, [&](int64_t n) { return GemmBytes(dy.dtype, dy.shape.rows(), r, n); });
}

int64_t DbWorkspace(const OpCall& call, int /*threads*/) {
  const graph::TensorType& db = call.output(0);
  const int64_t rows = call.input(1).shape.rows(), r = db.shape.dim(1);
  return Largest(call, [&](int64_t n) { return GemmBytes(db.dtype, n, r, rows); });
}

const CpuKernelRegistration kAddLowRank({"add_low_rank", &AddLowRank, &AddLowRankWorkspace});
const CpuKernelRegistration kDu({"add_low_rank_du", &Du, &DuWorkspace});
const CpuKernelRegistration kDb({"add_low_rank_db", &Db, &DbWorkspace});

}  // namespace
}  // namespace plimsoll::ops
