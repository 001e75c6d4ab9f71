// Formulas in dice.h and dice_cpu.cc. A block takes a chunk of a sample's voxels. With up to 8
// classes, a thread takes as many neighbouring voxels as a 16-byte pack has elements, so that their
// logits are full packs, or one voxel if packs would be unaligned; it reads the logits once, into
// registers. With more classes, a warp takes a voxel, and a lane two classes. Each block stores a
// partial sum of every column. One block adds these in a fixed order, a warp for each column, and
// computes the loss. Bytes: forward N·s, backward 2·N·s, and labels.
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/loss/dice.h"
#include "ops/loss/dice_sums.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTotalThreads = 1024;
constexpr int kMostNarrow = 8;  // the most classes whose logits fit a thread's registers
constexpr int kLaneClasses = static_cast<int>(kMostDiceClasses) / kWarp;

// All voxels, and how blocks share them.
template <typename S>
struct Voxels {
  Voxels(const CudaContext& ctx, const DiceSums& sums)
      : logits(ctx.in<S>(0)),
        labels(ctx.in<int32_t>(1)),
        classes(static_cast<int32_t>(sums.classes)),
        of_sample(sums.voxels),
        chunks(static_cast<uint32_t>(sums.chunks)) {}

  const S* logits;
  const int32_t* labels;
  int32_t classes;
  int64_t of_sample;
  uint32_t chunks;  // per sample

  // The block's sample, its chunk of that sample, and its voxels, which are numbered over all
  // samples.
  __device__ int64_t sample() const { return blockIdx.x / chunks; }
  __device__ uint32_t chunk() const { return blockIdx.x % chunks; }
  __device__ int64_t begin() const { return sample() * of_sample + chunk() * kDiceChunk; }
  __device__ int64_t end() const {
    const int64_t chunk_end = begin() + kDiceChunk, sample_end = (sample() + 1) * of_sample;
    return chunk_end < sample_end ? chunk_end : sample_end;
  }
};

// Reads N elements: in packs of kPack elements, which divide N, or one by one.
template <int kPack, int N, typename T, typename To>
__device__ void LoadAll(const T* from, To (&to)[N]) {
  static_assert(N % kPack == 0);
#pragma unroll
  for (int i = 0; i < N; i += kPack) {
    const Pack<T, kPack> pack = *reinterpret_cast<const Pack<T, kPack>*>(from + i);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      if constexpr (std::is_same_v<T, To>) {
        to[i + j] = pack.values[j];
      } else {
        to[i + j] = ToFloat(pack.values[j]);
      }
    }
  }
}

// Sets p[0 … C) to the softmax of the logits x. Returns the logarithm of the sum of exponentials.
template <int C>
__device__ float Softmax(const float* x, float (&p)[C]) {
  float largest = x[0];
#pragma unroll
  for (int c = 1; c < C; ++c) largest = fmaxf(largest, x[c]);
  float sum = 0;
#pragma unroll
  for (int c = 0; c < C; ++c) sum += p[c] = expf(x[c] - largest);
  const float inverse = 1 / sum;
#pragma unroll
  for (int c = 0; c < C; ++c) p[c] *= inverse;
  return largest + logf(sum);
}

// Adds the warps' sums of each column, and stores them as the block's partial sums. The partial
// sums of a column are contiguous.
template <typename S>
__device__ void StorePartials(const Voxels<S>& voxels, const float* warp_sums, int columns,
                              float* partials) {
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += warp_sums[w * columns + i];
    partials[(voxels.sample() * columns + i) * voxels.chunks + voxels.chunk()] = sum;
  }
}

// K: voxels at a time, 1 or those of a pack.
template <typename S, int C, int K>
__global__ void __launch_bounds__(kThreads)
    SumKernel(const Voxels<S> voxels, bool squared, float* partials) {
  constexpr int kColumns = 3 * C + 1, kLabelPack = K > 1 ? 4 : 1;
  float sums[kColumns] = {};  // I, G and P of each class, −log p
  const int64_t end = voxels.end();
  for (int64_t v = voxels.begin() + int64_t{threadIdx.x} * K; v < end; v += kThreads * K) {
    float x[K * C];
    int32_t labels[K];
    LoadAll<K>(voxels.logits + v * C, x);
    LoadAll<kLabelPack>(voxels.labels + v, labels);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int32_t label = labels[k];
      if (label < 0) continue;
      float p[C];
      const float lse = Softmax<C>(x + k * C, p);
      float of_label = NAN;  // stays NaN if the label is no class
#pragma unroll
      for (int c = 0; c < C; ++c) {
        const bool here = c == label;
        if (here) of_label = x[k * C + c];
        sums[c] += here ? p[c] : 0.0f;
        sums[C + c] += here ? 1.0f : 0.0f;
        sums[2 * C + c] += squared ? p[c] * p[c] : p[c];
      }
      sums[3 * C] += lse - of_label;
    }
  }
  __shared__ float warp_sums[kWarps * kColumns];
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const float sum = WarpSum(sums[i]);
    if (threadIdx.x % kWarp == 0) warp_sums[threadIdx.x / kWarp * kColumns + i] = sum;
  }
  StorePartials(voxels, warp_sums, kColumns, partials);
}

// The softmax of a voxel whose classes are distributed over the lanes of a warp, kWarp apart.
// Classes beyond the last one have p = 0.
struct LaneSoftmax {
  template <typename S>
  __device__ LaneSoftmax(const S* logits, int classes) {
    const int lane = threadIdx.x % kWarp;
    float largest = -INFINITY;
#pragma unroll
    for (int j = 0; j < kLaneClasses; ++j) {
      const int c = lane + j * kWarp;
      p[j] = c < classes ? ToFloat(logits[c]) : -INFINITY;
      largest = fmaxf(largest, p[j]);
    }
    largest = WarpMax(largest);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kLaneClasses; ++j) sum += p[j] = expf(p[j] - largest);
    sum = WarpSum(sum);
    const float inverse = 1 / sum;
#pragma unroll
    for (int j = 0; j < kLaneClasses; ++j) p[j] *= inverse;
    lse = largest + logf(sum);
  }

  float p[kLaneClasses];
  float lse;
};

template <typename S>
__global__ void __launch_bounds__(kThreads)
    SumWideKernel(const Voxels<S> voxels, bool squared, float* partials) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, classes = voxels.classes;
  float matched[kLaneClasses] = {}, ground[kLaneClasses] = {}, predicted[kLaneClasses] = {};
  float ce = 0;
  const int64_t end = voxels.end();
  for (int64_t v = voxels.begin() + warp; v < end; v += kWarps) {
    const int32_t label = voxels.labels[v];
    if (label < 0) continue;
    const S* const logits = voxels.logits + v * classes;
    const LaneSoftmax softmax(logits, classes);
#pragma unroll
    for (int j = 0; j < kLaneClasses; ++j) {
      const bool here = lane + j * kWarp == label;
      const float p = softmax.p[j];
      matched[j] += here ? p : 0.0f;
      ground[j] += here ? 1.0f : 0.0f;
      predicted[j] += squared ? p * p : p;
    }
    ce += softmax.lse - (label < classes ? ToFloat(logits[label]) : NAN);
  }
  constexpr int kMostColumns = 3 * static_cast<int>(kMostDiceClasses) + 1;
  __shared__ float warp_sums[kWarps * kMostColumns];
  const int columns = 3 * classes + 1;
  float* const to = warp_sums + warp * columns;
#pragma unroll
  for (int j = 0; j < kLaneClasses; ++j) {
    const int c = lane + j * kWarp;
    if (c >= classes) continue;
    to[c] = matched[j];
    to[classes + c] = ground[j];
    to[2 * classes + c] = predicted[j];
  }
  if (lane == 0) to[3 * classes] = ce;
  StorePartials(voxels, warp_sums, columns, partials);
}

// The loss of a sample. `total`: the sample's column sums.
__device__ float LossOf(const DiceTerms<float>& terms, int64_t classes, const float* total) {
  float dice = 0, voxels = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const float ground = total[classes + c], predicted = total[2 * classes + c];
    voxels += ground;
    if (c < terms.first) continue;
    dice += 1 - (2 * total[c] + terms.smooth_nr) / (ground + predicted + terms.smooth_dr);
  }
  // If no voxel's label is a class, ce is NaN as well.
  const float ce = voxels > 0 ? total[3 * classes] / voxels : total[3 * classes];
  return terms.lambda_dice * dice / static_cast<float>(classes - terms.first) +
         terms.lambda_ce * ce;
}

// Runs as one block. `totals` has room for the sums of all columns; kept[B,C,3] may be nullptr.
__global__ void __launch_bounds__(kTotalThreads)
    LossKernel(const DiceSums sums, const DiceTerms<float> terms, const float* partials,
               const float* weight, float* totals, float* loss, float* kept) {
  for (int64_t i = threadIdx.x / kWarp; i < sums.totals(); i += kTotalThreads / kWarp) {
    float sum = 0;
    for (int64_t chunk = threadIdx.x % kWarp; chunk < sums.chunks; chunk += kWarp) {
      sum += partials[i * sums.chunks + chunk];
    }
    sum = WarpSum(sum);
    if (threadIdx.x % kWarp == 0) totals[i] = sum;
  }
  __syncthreads();
  const int64_t classes = sums.classes;
  if (kept != nullptr) {
    for (int64_t i = threadIdx.x; i < sums.samples * classes * 3; i += kTotalThreads) {
      const int64_t sample = i / (classes * 3), c = i / 3 % classes;
      kept[i] = totals[sample * sums.columns + i % 3 * classes + c];
    }
  }
  float sum = 0;
  for (int64_t b = threadIdx.x; b < sums.samples; b += kTotalThreads) {
    sum += LossOf(terms, classes, totals + b * sums.columns);
  }
  __shared__ float shared[kTotalThreads / kWarp];
  sum = BlockSum<kTotalThreads>(sum, shared);
  if (threadIdx.x == 0) *loss = sum * *weight;
}

// Calls body.template operator()<C>() for the number of classes C, at most kMostNarrow.
template <typename Body>
void DispatchNarrow(int64_t classes, Body&& body) {
  static_assert(kMostNarrow == 8);
  switch (classes) {
    case 2:
      return body.template operator()<2>();
    case 3:
      return body.template operator()<3>();
    case 4:
      return body.template operator()<4>();
    case 5:
      return body.template operator()<5>();
    case 6:
      return body.template operator()<6>();
    case 7:
      return body.template operator()<7>();
    default:
      return body.template operator()<8>();
  }
}

unsigned Blocks(const DiceSums& sums) { return static_cast<unsigned>(sums.samples * sums.chunks); }

// Whether the voxels of each thread are full packs.
template <typename S>
bool TakesPacks(const Voxels<S>& voxels, const S* dlogits = nullptr) {
  return voxels.of_sample % kPackSize<S> == 0 && Aligned(voxels.logits, voxels.labels, dlogits);
}

void Loss(const CudaContext& ctx) {
  const DiceSums sums(ctx.in_shape(0));
  const DiceTerms<float> terms(ctx.attributes);
  float* const partials = static_cast<float*>(ctx.workspace);
  if (Blocks(sums) > 0) {
    DispatchCuda(ctx.dtype(), [&]<typename S>() {
      const Voxels<S> voxels(ctx, sums);
      if (sums.classes > kMostNarrow) {
        SumWideKernel<<<Blocks(sums), kThreads, 0, ctx.stream>>>(voxels, terms.squared, partials);
      } else {
        DispatchNarrow(sums.classes, [&]<int C>() {
          const auto kernel =
              TakesPacks(voxels) ? &SumKernel<S, C, kPackSize<S>> : &SumKernel<S, C, 1>;
          kernel<<<Blocks(sums), kThreads, 0, ctx.stream>>>(voxels, terms.squared, partials);
        });
      }
      gpu::CheckLaunch("dice_loss");
    });
  }
  LossKernel<<<1, kTotalThreads, 0, ctx.stream>>>(sums, terms, partials, ctx.in<float>(2),
                                                  partials + sums.partials(), ctx.out<float>(0),
                                                  ctx.out<float>(1));
  gpu::CheckLaunch("dice_loss");
}

// The gradient of a sample's voxels: d loss / dp[c] = of_label[c] · t + of_all[c] · (1, or 2·p).
struct Slopes {
  float of_label[kMostDiceClasses], of_all[kMostDiceClasses];
  float ce;  // the gradient of the loss by −log p

  // All threads of the block call it. `sums`: the sample's sums.
  __device__ void Fill(const DiceTerms<float>& terms, int classes, const float* sums,
                       float factor) {
    const int c = threadIdx.x;
    if (c < classes) {
      const float dice = factor * terms.lambda_dice / static_cast<float>(classes - terms.first);
      const float both = sums[3 * c + 1] + sums[3 * c + 2] + terms.smooth_dr;
      const bool counts = c >= terms.first;
      of_label[c] = counts ? -2 * dice / both : 0.0f;
      of_all[c] = counts ? dice * (2 * sums[3 * c] + terms.smooth_nr) / (both * both) : 0.0f;
    }
    if (c == 0) {
      float voxels = 0;
      for (int i = 0; i < classes; ++i) voxels += sums[3 * i + 1];
      ce = voxels > 0 ? factor * terms.lambda_ce / voxels : 0.0f;
    }
    __syncthreads();
  }
};

struct Derivative {
  DiceTerms<float> terms;
  const float *weight, *sums, *dloss;
};

template <typename S, int C, int K>
__global__ void __launch_bounds__(kThreads)
    BackwardKernel(const Voxels<S> voxels, const Derivative derivative, S* dlogits) {
  __shared__ Slopes slopes;
  slopes.Fill(derivative.terms, C, derivative.sums + voxels.sample() * C * 3,
              *derivative.dloss * *derivative.weight);
  constexpr int kLabelPack = K > 1 ? 4 : 1;
  const bool squared = derivative.terms.squared;
  const float ce = slopes.ce;
  const int64_t end = voxels.end();
  for (int64_t v = voxels.begin() + int64_t{threadIdx.x} * K; v < end; v += kThreads * K) {
    float x[K * C];
    int32_t labels[K];
    LoadAll<K>(voxels.logits + v * C, x);
    LoadAll<kLabelPack>(voxels.labels + v, labels);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int32_t label = labels[k];
      float p[C], dp[C];
      Softmax<C>(x + k * C, p);
      float mean = 0;
#pragma unroll
      for (int c = 0; c < C; ++c) {
        dp[c] = slopes.of_all[c] * (squared ? 2 * p[c] : 1.0f);
        if (c == label) dp[c] += slopes.of_label[c];
        mean += p[c] * dp[c];
      }
#pragma unroll
      for (int c = 0; c < C; ++c) {
        const float gradient = p[c] * (dp[c] - mean) + ce * (p[c] - (c == label ? 1.0f : 0.0f));
        x[k * C + c] = label < 0 ? 0.0f : gradient;
      }
    }
#pragma unroll
    for (int i = 0; i < K * C; i += K) {
      float pack[K];
#pragma unroll
      for (int j = 0; j < K; ++j) pack[j] = x[i + j];
      StoreGlobal(dlogits + v * C + i, pack);
    }
  }
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    BackwardWideKernel(const Voxels<S> voxels, const Derivative derivative, S* dlogits) {
  const int lane = threadIdx.x % kWarp, classes = voxels.classes;
  __shared__ Slopes slopes;
  slopes.Fill(derivative.terms, classes, derivative.sums + voxels.sample() * classes * 3,
              *derivative.dloss * *derivative.weight);
  const bool squared = derivative.terms.squared;
  const int64_t end = voxels.end();
  for (int64_t v = voxels.begin() + threadIdx.x / kWarp; v < end; v += kWarps) {
    const int32_t label = voxels.labels[v];
    const LaneSoftmax softmax(voxels.logits + v * classes, classes);
    float dp[kLaneClasses] = {}, mean = 0;
#pragma unroll
    for (int j = 0; j < kLaneClasses; ++j) {
      const int c = lane + j * kWarp;
      if (c >= classes) continue;
      dp[j] = slopes.of_all[c] * (squared ? 2 * softmax.p[j] : 1.0f);
      if (c == label) dp[j] += slopes.of_label[c];
      mean += softmax.p[j] * dp[j];
    }
    mean = WarpSum(mean);
#pragma unroll
    for (int j = 0; j < kLaneClasses; ++j) {
      const int c = lane + j * kWarp;
      if (c >= classes) continue;
      const float p = softmax.p[j];
      const float gradient = p * (dp[j] - mean) + slopes.ce * (p - (c == label ? 1.0f : 0.0f));
      dlogits[v * classes + c] = FromFloat<S>(label < 0 ? 0.0f : gradient);
    }
  }
}

void LossBackward(const CudaContext& ctx) {
  const DiceSums sums(ctx.in_shape(0));
  if (Blocks(sums) == 0) return;
  const Derivative derivative{DiceTerms<float>(ctx.attributes), ctx.in<float>(2), ctx.in<float>(3),
                              ctx.in<float>(4)};
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    const Voxels<S> voxels(ctx, sums);
    S* const dlogits = ctx.out<S>(0);
    if (sums.classes > kMostNarrow) {
      BackwardWideKernel<<<Blocks(sums), kThreads, 0, ctx.stream>>>(voxels, derivative, dlogits);
    } else {
      DispatchNarrow(sums.classes, [&]<int C>() {
        const auto kernel = TakesPacks(voxels, dlogits) ? &BackwardKernel<S, C, kPackSize<S>>
                                                        : &BackwardKernel<S, C, 1>;
        kernel<<<Blocks(sums), kThreads, 0, ctx.stream>>>(voxels, derivative, dlogits);
      });
    }
    gpu::CheckLaunch("dice_loss_backward");
  });
}

const CudaKernelRegistration kLoss({"dice_loss", &Loss});
const CudaKernelRegistration kLossBackward({"dice_loss_backward", &LossBackward});

}  // namespace
}  // namespace plimsoll::ops
