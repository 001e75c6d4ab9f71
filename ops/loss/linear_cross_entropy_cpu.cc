// Formulas in linear_cross_entropy.h; linear_loss_cpu.h says how a chunk is computed. The training
// op does all of it; the forward and backward ops do their parts with the same functions on the
// same chunks, hence with the same bits.
//
// The loss is added up in double, row after row. Bytes, in addition to GEMM's: the chunk of logits
// is written once and read twice; dweight is read and written once per chunk.
#include "ops/loss/linear_loss_cpu.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using linear_loss::Arguments;
using linear_loss::ChunkGradients;
using linear_loss::kAbsent;
using linear_loss::Loss;

constexpr Arguments kForwardArguments = {4, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent};
constexpr Arguments kBackwardArguments = {7, 6, 8, 9, 0, 1, 2};
constexpr Arguments kTrainArguments = {6, 5, 7, 8, 1, 2, 3};

void Forward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Loss<S> loss(ctx, kForwardArguments);
    T* const lse = ctx.out<T>(1);
    loss.ForChunks([&](int64_t first, int64_t count) {
      loss.MakeLogits(first, count);
      loss.CombineRanks(first, count);
      loss.ForRows(count, [&](int64_t r) {
        const T row_lse = loss.FinishRow(first, count, r);
        if (lse != nullptr) lse[first + r] = row_lse;
      });
    });
    *ctx.out<T>(0) = loss.TotalLoss(*ctx.in<float>(3));
  });
}

void Backward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Loss<S> loss(ctx, kBackwardArguments);
    const T* const lse = ctx.in<T>(4);
    const T factor = static_cast<T>(*ctx.in<float>(3)) * *ctx.in<T>(5);
    loss.ForChunks([&](int64_t first, int64_t count) {
      loss.MakeLogits(first, count);
      loss.ForRows(count, [&](int64_t r) {
        loss.GradientOfRow(first + r, lse[first + r], factor, loss.logits + r * loss.vocabulary);
      });
      ChunkGradients(ctx, kBackwardArguments, loss, first, count);
    });
  });
}

void Train(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Loss<S> loss(ctx, kTrainArguments);
    const T factor = static_cast<T>(*ctx.in<float>(3)) * *ctx.in<T>(4);
    loss.ForChunks([&](int64_t first, int64_t count) {
      loss.MakeLogits(first, count);
      loss.CombineRanks(first, count);
      loss.ForRows(count, [&](int64_t r) {
        const T lse = loss.FinishRow(first, count, r);
        loss.GradientOfRow(first + r, lse, factor, loss.logits + r * loss.vocabulary);
      });
      ChunkGradients(ctx, kTrainArguments, loss, first, count);
    });
    *ctx.out<T>(0) = loss.TotalLoss(*ctx.in<float>(3));
  });
}

template <const Arguments& kArguments>
int64_t WorkspaceFor(const OpCall& call, int /*threads*/) {
  return linear_loss::Workspace(call, kArguments, call.op.name == "linear_cross_entropy");
}

const CpuKernelRegistration kForward({"linear_cross_entropy", &Forward,
                                      &WorkspaceFor<kForwardArguments>});
const CpuKernelRegistration kBackward({"linear_cross_entropy_backward", &Backward,
                                       &WorkspaceFor<kBackwardArguments>});
const CpuKernelRegistration kTrain({"linear_cross_entropy_train", &Train,
                                    &WorkspaceFor<kTrainArguments>});

}  // namespace
}  // namespace plimsoll::ops
