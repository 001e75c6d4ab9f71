// Formulas in masked_softmax.cc. A row is read once, 16 bytes per thread and load, and stays in
// registers until it is written. One warp takes rows up to 1,024 elements of 16 bits, a block of
// 256 threads rows up to 8,192. Rows that don't consist of full packs of 16 bytes are read element
// by element, by one warp up to 1,024 elements. All other rows are read three times, in the
// backward pass twice. Masked keys are not read. Bytes: forward 2·n·s, backward 3·n·s; with a
// causal mask about half of the bytes that are read.
#include <algorithm>
#include <cstdint>

#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

// Threads of a block that shares a row, and of a block whose warps each have their own row.
constexpr int kSoftmaxBlock = 256, kSoftmaxWarps = 128;

constexpr int SoftmaxBlock(int threads) { return threads == kWarp ? kSoftmaxWarps : kSoftmaxBlock; }

struct SoftmaxRows {
  int64_t rows;           // number of rows of all sequences and heads
  int64_t rows_of_batch;  // number of rows of one sequence
  int sequence;
  bool causal;
  float scale;
  const int32_t* lengths = nullptr;

  // The number of keys that the query of a row sees; they are the first ones.
  __device__ int Seen(int64_t row) const {
    const int query = static_cast<int>(row % sequence);
    const int length =
        lengths == nullptr ? sequence : min(max(lengths[row / rows_of_batch], 0), sequence);
    if (query >= length) return 0;
    return causal ? query + 1 : length;
  }
};

// The sum over the kThreads threads that share a row. `shared` must not be used by another call.
template <int kThreads>
__device__ float SumOfRow(float x, float* shared) {
  if constexpr (kThreads == kWarp) {
    return WarpSum(x);
  } else {
    return BlockSum<kThreads>(x, shared);
  }
}

template <int kThreads>
__device__ float MaxOfRow(float x, float* shared) {
  x = WarpMax(x);
  if constexpr (kThreads > kWarp) {
    if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
    __syncthreads();
    x = WarpMax(shared[threadIdx.x % (kThreads / kWarp)]);
  }
  return x;
}

// e^(scale · (score − largest)), from scale / ln 2.
__device__ inline float Exponential(float score, float largest, float scale2) {
  return exp2f((score - largest) * scale2);
}

constexpr float kLog2E = 1.44269504088896341f;

// Loads N elements from column `first` on as floats; elements from `seen` on become `masked`.
template <int N, typename S>
__device__ void LoadSeen(const S* row, int first, int seen, float masked, float (&to)[N]) {
  if (first < seen) LoadPack<N>(row + first, to);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (first + j >= seen) to[j] = masked;
  }
}

// Forward: `a` are the scores. Backward: `a` are the probabilities, `b` their gradients. A thread
// has kPacks packs of kSize elements.
template <bool kBackward, typename S, int kSize, int kThreads, int kPacks>
__global__ void __launch_bounds__(SoftmaxBlock(kThreads))
    SoftmaxKernel(const SoftmaxRows at, const S* a, const S* b, S* out) {
  __shared__ float shared[2][kSoftmaxBlock / kWarp];
  const int64_t row = int64_t{blockIdx.x} * (SoftmaxBlock(kThreads) / kThreads) +
                      static_cast<int>(threadIdx.x) / kThreads;
  if (row >= at.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % kThreads;
  const int64_t start = row * at.sequence;
  const int seen = at.Seen(row);

  float x[kPacks][kSize], dx[kPacks][kSize];
  float largest = -INFINITY, sum = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int first = (k * kThreads + lane) * kSize;
    LoadSeen(a + start, first, seen, kBackward ? 0.0f : -INFINITY, x[k]);
    if constexpr (kBackward) LoadSeen(b + start, first, seen, 0.0f, dx[k]);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if constexpr (kBackward) {
        sum += x[k][j] * dx[k][j];
      } else {
        largest = fmaxf(largest, x[k][j]);
      }
    }
  }
  if constexpr (!kBackward) {
    largest = MaxOfRow<kThreads>(largest, shared[0]);
    const float scale2 = at.scale * kLog2E;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        x[k][j] = seen == 0 ? 0.0f : Exponential(x[k][j], largest, scale2);
        sum += x[k][j];
      }
    }
  }
  sum = SumOfRow<kThreads>(sum, shared[1]);
  const float inverse = seen == 0 ? 0.0f : 1 / sum;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int first = (k * kThreads + lane) * kSize;
    if (first >= at.sequence) continue;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      x[k][j] *= kBackward ? (dx[k][j] - sum) * at.scale : inverse;
    }
    StoreGlobal(out + start + first, x[k]);
  }
}

// The kernel for any width and alignment: a block takes a row. Each thread has the same elements in
// every pass, so that `out` may be the memory of any input.
template <bool kBackward, typename S>
__global__ void __launch_bounds__(kSoftmaxBlock)
    SoftmaxAnyKernel(const SoftmaxRows at, const S* a, const S* b, S* out) {
  __shared__ float shared[2][kSoftmaxBlock / kWarp];
  const int64_t start = int64_t{blockIdx.x} * at.sequence;
  const int seen = at.Seen(blockIdx.x);
  float largest = -INFINITY, sum = 0;
  const float scale2 = at.scale * kLog2E;
  const auto exponential = [&](int j) {
    return Exponential(ToFloat(a[start + j]), largest, scale2);
  };
  if constexpr (!kBackward) {
    for (int j = threadIdx.x; j < seen; j += kSoftmaxBlock) {
      largest = fmaxf(largest, ToFloat(a[start + j]));
    }
    largest = MaxOfRow<kSoftmaxBlock>(largest, shared[0]);
  }
  for (int j = threadIdx.x; j < seen; j += kSoftmaxBlock) {
    if constexpr (kBackward) {
      sum += ToFloat(a[start + j]) * ToFloat(b[start + j]);
    } else {
      sum += exponential(j);
    }
  }
  sum = SumOfRow<kSoftmaxBlock>(sum, shared[1]);
  const float inverse = 1 / sum;
  for (int j = threadIdx.x; j < at.sequence; j += kSoftmaxBlock) {
    float value = 0;
    if (j < seen && kBackward) {
      value = ToFloat(a[start + j]) * ((ToFloat(b[start + j]) - sum) * at.scale);
    } else if (j < seen) {
      value = exponential(j) * inverse;
    }
    out[start + j] = FromFloat<S>(value);
  }
}

// Calls launch<elements of a pack, threads of a row, packs of a thread>(blocks, threads of a
// block). 0 packs: the kernel for any width.
template <typename S, typename Launch>
void ByWidth(const SoftmaxRows& at, bool aligned, const Launch& launch) {
  const auto with = [&]<int kSize, int kThreads, int kPacks>() {
    constexpr int kBlock = SoftmaxBlock(kThreads), kRows = kBlock / kThreads;
    launch.template operator()<kSize, kThreads, kPacks>(
        static_cast<unsigned>((at.rows + kRows - 1) / kRows), kBlock);
  };
  constexpr int kSize = kPackSize<S>;
  const bool whole = aligned && at.sequence % kSize == 0;
  const int packs = whole ? at.sequence / kSize : at.sequence;
  if (packs > (whole ? 4 * kSoftmaxBlock : 32 * kWarp)) {
    with.template operator()<1, kSoftmaxBlock, 0>();
  } else if (!whole) {
    packs <= 8 * kWarp ? with.template operator()<1, kWarp, 8>()
                       : with.template operator()<1, kWarp, 32>();
  } else if (packs <= kWarp) {
    with.template operator()<kSize, kWarp, 1>();
  } else if (packs <= 2 * kWarp) {
    with.template operator()<kSize, kWarp, 2>();
  } else if (packs <= 4 * kWarp) {
    with.template operator()<kSize, kWarp, 4>();
  } else if (packs <= kSoftmaxBlock) {
    with.template operator()<kSize, kSoftmaxBlock, 1>();
  } else if (packs <= 2 * kSoftmaxBlock) {
    with.template operator()<kSize, kSoftmaxBlock, 2>();
  } else {
    with.template operator()<kSize, kSoftmaxBlock, 4>();
  }
}

template <bool kBackward>
void Softmax(const CudaContext& ctx) {
  const graph::Shape& shape = ctx.in_shape(0);
  const SoftmaxRows at = {.rows = shape.rows(),
                          .rows_of_batch = shape.dim(1) * shape.dim(2),
                          .sequence = static_cast<int>(shape.dim(3)),
                          .causal = ctx.attributes.GetBool("causal"),
                          .scale = static_cast<float>(ctx.attributes.GetReal("scale")),
                          .lengths = kBackward ? nullptr : ctx.in<int32_t>(1)};
  if (at.rows == 0) return;
  DispatchCuda(ctx.dtype(), [&]<typename S>() {
    const S *const a = ctx.in<S>(0), *const b = kBackward ? ctx.in<S>(1) : nullptr;
    S* const out = ctx.out<S>(0);
    ByWidth<S>(at, Aligned(a, b, out),
               [&]<int kSize, int kThreads, int kPacks>(unsigned blocks, int threads) {
                 if constexpr (kPacks == 0) {
                   SoftmaxAnyKernel<kBackward><<<blocks, threads, 0, ctx.stream>>>(at, a, b, out);
                 } else {
                   SoftmaxKernel<kBackward, S, kSize, kThreads, kPacks>
                       <<<blocks, threads, 0, ctx.stream>>>(at, a, b, out);
                 }
               });
    gpu::CheckLaunch(kBackward ? "masked_softmax_backward" : "masked_softmax");
  });
}

const CudaKernelRegistration kSoftmax({"masked_softmax", &Softmax<false>});
const CudaKernelRegistration kSoftmaxBackward({"masked_softmax_backward", &Softmax<true>});

}  // namespace
}  // namespace plimsoll::ops
