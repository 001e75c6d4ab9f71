// Formulas in binary_cross_entropy.h and binary_cross_entropy_cpu.cc. Forward: a block takes a
// chunk of elements, a thread every 256th of them; one block then adds the chunks' sums and counts,
// always in the same order. Backward: elementwise (ops/cuda/elementwise.cuh).
// Bytes: forward n·s, backward 2·n·s, and targets.
#include "gpu/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/reductions/sum_chunks.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kTotalThreads = 1024;

// A sum of losses, and the numbers of right and of counted logits.
struct Part {
  float loss = 0;
  int32_t right = 0, counted = 0;
};

// Which logits count: all, or those of rows with a label.
struct Counted {
  const int32_t* labels;
  int64_t row;  // number of logits in a row

  __device__ bool at(int64_t i) const { return labels == nullptr || labels[i / row] >= 0; }
};

Counted CountedOf(const CudaContext& ctx, size_t input) {
  const int32_t* const labels = ctx.in<int32_t>(input);
  if (labels == nullptr) return {nullptr, 1};
  return {labels, ctx.in_shape(0).elements() / ctx.in_shape(0).dim(0)};
}

// The sum over a block of kCount threads. All of them call this; only the first thread gets the
// sum.
template <int kCount>
__device__ Part BlockPart(const Part& part) {
  __shared__ float losses[kWarp];
  __shared__ int32_t rights[kWarp], counts[kWarp];
  const int lane = threadIdx.x % kWarp;
  const int32_t right = WarpTotal(part.right);
  const int32_t counted = WarpTotal(part.counted);
  if (lane == 0) {
    rights[threadIdx.x / kWarp] = right;
    counts[threadIdx.x / kWarp] = counted;
  }
  const float loss = BlockSum<kCount>(part.loss, losses);  // synchronizes
  const bool has = lane < kCount / kWarp;
  return {loss, WarpTotal(has ? rights[lane] : 0), WarpTotal(has ? counts[lane] : 0)};
}

// `targets` has one target for each logit; if it is nullptr, all logits have `target`.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    SumKernel(int64_t elements, const S* logits, const float* targets, float target,
              Counted counted, float* losses, int32_t* rights, int32_t* counts) {
  Part part;
  const int64_t begin = blockIdx.x * kSumChunk, end = min(begin + kSumChunk, elements);
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    if (!counted.at(i)) continue;
    const float x = ToFloat(logits[i]), t = targets != nullptr ? targets[i] : target;
    if (isnan(t)) continue;
    part.loss += fmaxf(x, 0.0f) - x * t + log1pf(expf(-fabsf(x)));
    part.right += (x > 0) == (2 * t > 1);
    ++part.counted;
  }
  part = BlockPart<kThreads>(part);
  if (threadIdx.x > 0) return;
  losses[blockIdx.x] = part.loss;
  rights[blockIdx.x] = part.right;
  counts[blockIdx.x] = part.counted;
}

// Runs as one block. `right` and `counted` may be nullptr.
__global__ void __launch_bounds__(kTotalThreads)
    TotalKernel(int64_t chunks, const float* losses, const int32_t* rights, const int32_t* counts,
                const float* weight, float* loss, int32_t* right, int32_t* counted) {
  Part part;
  for (int64_t i = threadIdx.x; i < chunks; i += kTotalThreads) {
    part.loss += losses[i];
    part.right += rights[i];
    part.counted += counts[i];
  }
  part = BlockPart<kTotalThreads>(part);
  if (threadIdx.x > 0) return;
  *loss = part.loss * *weight;
  if (right != nullptr) *right = part.right;
  if (counted != nullptr) *counted = part.counted;
}

// The target of all logits; not read if the call has targets.
float Target(const CudaContext& ctx) {
  const graph::Attributes& attributes = ctx.attributes;
  return attributes.Has("target") ? static_cast<float>(attributes.GetReal("target")) : 0.0f;
}

void Loss(const CudaContext& ctx) {
  const int64_t elements = ctx.in_shape(0).elements(), chunks = SumChunks(elements);
  float* const losses = static_cast<float*>(ctx.workspace);
  int32_t* const rights = reinterpret_cast<int32_t*>(losses + chunks);
  int32_t* const counts = rights + chunks;
  if (chunks > 0) {
    DispatchCuda(ctx.dtype(), [&]<typename S>() {
      SumKernel<<<static_cast<unsigned>(chunks), kThreads, 0, ctx.stream>>>(
          elements, ctx.in<S>(0), ctx.in<float>(2), Target(ctx), CountedOf(ctx, 3), losses, rights,
          counts);
    });
    gpu::CheckLaunch("binary_cross_entropy_with_logits");
  }
  TotalKernel<<<1, kTotalThreads, 0, ctx.stream>>>(chunks, losses, rights, counts, ctx.in<float>(1),
                                                   ctx.out<float>(0), ctx.out<int32_t>(1),
                                                   ctx.out<int32_t>(2));
  gpu::CheckLaunch("binary_cross_entropy_with_logits");
}

// Rows without a label get no gradient.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    DropKernel(int64_t elements, Counted counted, S* gradient) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < elements && !counted.at(i)) gradient[i] = FromFloat<S>(0.0f);
}

struct Slope {
  const float *weight, *dloss;
  float target;

  __device__ float operator()(float x) const { return (*this)(x, target); }
  __device__ float operator()(float x, float t) const {
    if (isnan(t)) return 0;
    const float tail = expf(-fabsf(x)), body = 1 / (1 + tail);
    const float real = x < 0 ? tail * body : body, fake = x < 0 ? body : tail * body;
    return *weight * *dloss * ((1 - t) * real - t * fake);
  }
};

void LossBackward(const CudaContext& ctx) {
  const int64_t elements = ctx.in_shape(0).elements();
  const Slope slope{ctx.in<float>(1), ctx.in<float>(2), Target(ctx)};
  const char* const name = ctx.op.name.c_str();
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    const S* const logits = ctx.in<S>(0);
    if (const float* const targets = ctx.in<float>(3)) {
      Map(ctx.stream, name, elements, slope, ctx.out<S>(0), logits, targets);
    } else {
      Map(ctx.stream, name, elements, slope, ctx.out<S>(0), logits);
    }
    if (ctx.in<int32_t>(4) != nullptr && elements > 0) {
      DropKernel<<<static_cast<unsigned>((elements + kThreads - 1) / kThreads), kThreads, 0,
                   ctx.stream>>>(elements, CountedOf(ctx, 4), ctx.out<S>(0));
      gpu::CheckLaunch(name);
    }
  });
}

const CudaKernelRegistration kLoss({"binary_cross_entropy_with_logits", &Loss});
const CudaKernelRegistration kLossBackward({"binary_cross_entropy_with_logits_backward",
                                            &LossBackward});

}  // namespace
}  // namespace plimsoll::ops
