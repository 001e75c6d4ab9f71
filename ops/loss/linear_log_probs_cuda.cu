// Formulas in linear_log_probs.h; ops/cuda/linear_loss.cuh says how a chunk of rows is computed,
// and which bytes it moves. The forward op computes the rows' losses like linear_cross_entropy;
// logp is their negative, one thread per pack (8·N bytes). The backward op recomputes the logits of
// a chunk, or their exponentials, and scales the gradient of each row by its own −dlogp.
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/linear_loss.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

using linear_loss_cuda::Arguments;
using linear_loss_cuda::ComputeChunks;
using linear_loss_cuda::Loss;
using linear_loss_cuda::PrepareChunks;

constexpr Arguments kForwardArguments = {.bias = 3, .logp = 0, .lse = 1};
constexpr Arguments kBackwardArguments = {.lse_in = 3,
                                          .dloss = 4,
                                          .acc = 5,
                                          .bias = 6,
                                          .acc_bias = 7,
                                          .rng = 8,
                                          .dx = 0,
                                          .dweight = 1,
                                          .dbias = 2};

// The result for an ignored row, whose loss is 0, is 0 without a sign.
struct LogProb {
  __device__ float operator()(float loss) const { return 0.0f - loss; }
};

void Forward(const CudaContext& ctx) {
  const Loss<true> loss{ctx, kForwardArguments};
  ComputeChunks(loss);
  Map(ctx.stream, "log-probabilities", loss.rows, LogProb(), ctx.out<float>(kForwardArguments.logp),
      static_cast<const float*>(loss.losses));
}

void Backward(const CudaContext& ctx) { ComputeChunks(Loss<true>{ctx, kBackwardArguments}); }
void PrepareForward(const CudaContext& ctx) { PrepareChunks<true>(ctx, kForwardArguments); }
void PrepareBackward(const CudaContext& ctx) { PrepareChunks<true>(ctx, kBackwardArguments); }

const CudaKernelRegistration kForward({"linear_log_probs", &Forward, &PrepareForward});
const CudaKernelRegistration kBackward({"linear_log_probs_backward", &Backward, &PrepareBackward});

}  // namespace
}  // namespace plimsoll::ops
