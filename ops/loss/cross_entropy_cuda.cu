// Formulas in ops/loss/cross_entropy.h. A warp takes a row and reads it twice: the largest logit
// and the sum of exponentials together, then, with label smoothing, the sum of logits. The rows'
// losses are added by one block in a fixed order. Backward: a thread for each element.
// Bytes: forward N·s, backward 2·N·s.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsOfBlock = kThreads / kWarp;
constexpr int kTopKThreads = 1024;

// The labels of the rows: one, or two with weights that add up to 1.
struct Labels {
  const int32_t* first;
  const int32_t* second;  // the second labels, or nullptr
  const float* weight;    // the weights of the first labels if there are second labels

  // The row's second label, or the first label if the row has no second.
  __device__ int32_t SecondOf(int64_t r) const {
    return second != nullptr && second[r] >= 0 ? second[r] : first[r];
  }
};

// `second`: the index of the input targets_b.
Labels LabelsOf(const CudaContext& ctx, size_t second) {
  return {ctx.in<int32_t>(1), ctx.in<int32_t>(second), ctx.in<float>(second + 1)};
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    RowLossKernel(const S* logits, const Labels labels, int64_t rows, int64_t classes,
                  float smoothing, float* losses, float* lse) {
  const int64_t r = int64_t{blockIdx.x} * kRowsOfBlock + threadIdx.x / kWarp;
  if (r >= rows) return;
  const int lane = threadIdx.x % kWarp;
  const S* const row = logits + r * classes;
  float largest = -INFINITY, total = 0;
  for (int64_t c = lane; c < classes; c += kWarp) {
    const float logit = ToFloat(row[c]);
    largest = fmaxf(largest, logit);
    total += logit;
  }
  largest = WarpMax(largest);
  float sum = 0;
  for (int64_t c = lane; c < classes; c += kWarp) sum += expf(ToFloat(row[c]) - largest);
  const float of_row = largest + logf(WarpSum(sum));
  total = WarpSum(total);
  if (lane != 0) return;
  if (lse != nullptr) lse[r] = of_row;
  const int32_t target = labels.first[r];
  const int32_t second = labels.SecondOf(r);
  float loss = 0;
  if (target >= classes || second >= classes) {
    loss = NAN;
  } else if (target >= 0) {
    float of_labels = of_row - ToFloat(row[target]);
    if (second != target) {
      const float w = labels.weight[r];
      of_labels = w * of_labels + (1 - w) * (of_row - ToFloat(row[second]));
    }
    loss = (1 - smoothing) * of_labels + smoothing * (of_row - total / static_cast<float>(classes));
  }
  losses[r] = loss;
}

__global__ void __launch_bounds__(kThreads)
    SumKernel(const float* losses, int64_t rows, const float* scale, float* loss) {
  __shared__ float shared[kRowsOfBlock];
  float sum = 0;
  for (int64_t r = threadIdx.x; r < rows; r += kThreads) sum += losses[r];
  sum = BlockSum<kThreads>(sum, shared);
  if (threadIdx.x == 0) *loss = sum * *scale;
}

void Loss(const CudaContext& ctx) {
  const int64_t rows = ctx.in_shape(0).rows(), classes = ctx.in_shape(0).dim(-1);
  const auto smoothing = static_cast<float>(ctx.attributes.GetReal("label_smoothing"));
  float* const losses = static_cast<float*>(ctx.workspace);
  if (rows > 0) {
    DispatchCuda(ctx.dtype(), [&]<typename S>() {
      const auto blocks = static_cast<unsigned>((rows + kRowsOfBlock - 1) / kRowsOfBlock);
      RowLossKernel<<<blocks, kThreads, 0, ctx.stream>>>(
          ctx.in<S>(0), LabelsOf(ctx, 3), rows, classes, smoothing, losses, ctx.out<float>(1));
      gpu::CheckLaunch("cross_entropy");
    });
  }
  SumKernel<<<1, kThreads, 0, ctx.stream>>>(losses, rows, ctx.in<float>(2), ctx.out<float>(0));
  gpu::CheckLaunch("cross_entropy");
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    LossBackwardKernel(const S* logits, const Labels labels, const float* scale, const float* lse,
                       const float* dloss, int64_t elements, int64_t classes, float smoothing,
                       S* dlogits) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  const int64_t r = i / classes, c = i % classes;
  const int32_t target = labels.first[r];
  float gradient = 0;
  if (target >= 0) {
    float share = c == target ? 1.0f : 0.0f;
    if (const int32_t second = labels.SecondOf(r); second != target) {
      const float w = labels.weight[r];
      share = w * share + (1 - w) * (c == second ? 1.0f : 0.0f);
    }
    const float wanted = (1 - smoothing) * share + smoothing / static_cast<float>(classes);
    gradient = *dloss * *scale * (expf(ToFloat(logits[i]) - lse[r]) - wanted);
  }
  dlogits[i] = FromFloat<S>(gradient);
}

void LossBackward(const CudaContext& ctx) {
  const int64_t elements = ctx.in_shape(0).elements();
  if (elements == 0) return;
  const auto smoothing = static_cast<float>(ctx.attributes.GetReal("label_smoothing"));
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    LossBackwardKernel<<<static_cast<unsigned>((elements + kThreads - 1) / kThreads), kThreads, 0,
                         ctx.stream>>>(ctx.in<S>(0), LabelsOf(ctx, 5), ctx.in<float>(2),
                                       ctx.in<float>(3), ctx.in<float>(4), elements,
                                       ctx.in_shape(0).dim(-1), smoothing, ctx.out<S>(0));
    gpu::CheckLaunch("cross_entropy_backward");
  });
}

// Runs as one block, whose warps take row after row. Integer sums are the same in any order.
template <typename S>
__global__ void __launch_bounds__(kTopKThreads)
    TopKKernel(const S* logits, const int32_t* targets, int64_t rows, int64_t classes, int64_t k,
               int32_t* right, int32_t* counted) {
  __shared__ int32_t sums[2];
  if (threadIdx.x < 2) sums[threadIdx.x] = 0;
  __syncthreads();
  const int lane = threadIdx.x % kWarp;
  for (int64_t r = threadIdx.x / kWarp; r < rows; r += kTopKThreads / kWarp) {
    const int32_t target = targets[r];
    if (target < 0) continue;
    const S* const row = logits + r * classes;
    const float own = target < classes ? ToFloat(row[target]) : NAN;
    int larger = 0;
#pragma unroll 8
    for (int64_t c = lane; c < classes; c += kWarp) {
      const float other = ToFloat(row[c]);
      larger += other > own || (other == own && c < target);
    }
    larger = WarpTotal(larger);
    if (lane != 0) continue;
    atomicAdd(&sums[0], larger < k && own == own);
    atomicAdd(&sums[1], 1);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  *right = sums[0];
  *counted = sums[1];
}

void CountTopK(const CudaContext& ctx) {
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    TopKKernel<<<1, kTopKThreads, 0, ctx.stream>>>(
        ctx.in<S>(0), ctx.in<int32_t>(1), ctx.in_shape(0).rows(), ctx.in_shape(0).dim(-1),
        ctx.attributes.GetInt("k"), ctx.out<int32_t>(0), ctx.out<int32_t>(1));
    gpu::CheckLaunch("count_top_k");
  });
}

const CudaKernelRegistration kLoss({"cross_entropy", &Loss});
const CudaKernelRegistration kLossBackward({"cross_entropy_backward", &LossBackward});
const CudaKernelRegistration kTopK({"count_top_k", &CountTopK});

}  // namespace
}  // namespace plimsoll::ops
