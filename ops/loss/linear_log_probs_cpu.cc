// Formulas in linear_log_probs.h; linear_loss_cpu.h says how a chunk is computed. The backward op
// recomputes the logits of a chunk and so takes four products. linear_cross_entropy_train takes
// three; here dlogp depends on the log-probabilities of all rows.
//
// Threads: GEMM's, and rows. Bytes, in addition to GEMM's: each op writes the chunk of logits once
// and reads it twice; dweight is read and written once per chunk.
#include "ops/loss/linear_loss_cpu.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using linear_loss::Arguments;
using linear_loss::ChunkGradients;
using linear_loss::kAbsent;
using linear_loss::Loss;

constexpr Arguments kForwardArguments = {3, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent};
constexpr Arguments kBackwardArguments = {6, 5, 7, 8, 0, 1, 2};

void Forward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Loss<S> loss(ctx, kForwardArguments);
    T *const logp = ctx.out<T>(0), *const lse = ctx.out<T>(1);
    loss.ForChunks([&](int64_t first, int64_t count) {
      loss.MakeLogits(first, count);
      loss.CombineRanks(first, count);
      loss.ForRows(count, [&](int64_t r) {
        const T row_lse = loss.FinishRow(first, count, r);
        if (lse != nullptr) lse[first + r] = row_lse;
        const bool counts = loss.targets[first + r] >= 0;  // otherwise logp is +0
        logp[first + r] = counts ? static_cast<T>(-loss.losses[first + r]) : T(0);
      });
    });
  });
}

void Backward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Loss<S> loss(ctx, kBackwardArguments);
    const T *const lse = ctx.in<T>(3), *const dlogp = ctx.in<T>(4);
    loss.ForChunks([&](int64_t first, int64_t count) {
      loss.MakeLogits(first, count);
      loss.ForRows(count, [&](int64_t r) {
        const int64_t row = first + r;
        loss.GradientOfRow(row, lse[row], -dlogp[row], loss.logits + r * loss.vocabulary);
      });
      ChunkGradients(ctx, kBackwardArguments, loss, first, count);
    });
  });
}

int64_t ForwardWorkspace(const OpCall& call, int /*threads*/) {
  return linear_loss::Workspace(call, kForwardArguments, /*forward_only=*/true);
}

int64_t BackwardWorkspace(const OpCall& call, int /*threads*/) {
  return linear_loss::Workspace(call, kBackwardArguments, /*forward_only=*/false);
}

const CpuKernelRegistration kForward({"linear_log_probs", &Forward, &ForwardWorkspace});
const CpuKernelRegistration kBackward({"linear_log_probs_backward", &Backward, &BackwardWorkspace});

}  // namespace
}  // namespace plimsoll::ops
