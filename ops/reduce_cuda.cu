// Sums over whole tensors, in two stages: a block of threads sums a chunk of 32,768 elements of one
// tensor, and one block adds the chunks in a fixed order. The first stage is one launch for up to
// 1,000 tensors, whose addresses are in the kernel's parameter. A thread adds the 4 or 8 elements
// of a 16-byte load in f32, and these sums in f64. Infinities and NaNs propagate: the norm of
// gradients that overflowed is not finite. Bytes: n·s.
//
// Squares are f32: the square of an element above 1.8e19 is infinite.
#include <cstring>

#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/sum_chunks.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxTensors = 1000;

struct SumTensor {
  const void* data;
  int64_t elements;
  int chunk;  // the tensor's first chunk, counted over all tensors of the launch
  graph::DType dtype;
};

// At most 24 KB of the 32 KB that a kernel's parameters may take.
struct SumTable {
  SumTensor tensors[kMaxTensors];
  int count = 0;
  int chunks = 0;
  double* partials;  // of the launch's first chunk
};

__device__ double WarpSum(double x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// The result is valid in the first thread.
__device__ double BlockTotal(double x) {
  __shared__ double shared[kWarp];
  x = WarpSum(x);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  return WarpSum(threadIdx.x < blockDim.x / kWarp ? shared[threadIdx.x] : 0.0);
}

template <bool kSquare>
__device__ float Term(float x) {
  return kSquare ? x * x : x;
}

template <typename T, bool kSquare>
__device__ double ThreadSum(const T* x, int n) {
  constexpr int kSize = kPackSize<T>;
  double sum = 0;
  int done = 0;
  if (reinterpret_cast<uintptr_t>(x) % 16 == 0) {
    const int packs = n / kSize;
#pragma unroll 8
    for (int i = threadIdx.x; i < packs; i += kThreads) {
      float values[kSize], part = 0;
      LoadPack<kSize>(x + int64_t{i} * kSize, values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) part += Term<kSquare>(values[j]);
      sum += part;
    }
    done = packs * kSize;
  }
  for (int i = done + threadIdx.x; i < n; i += kThreads) sum += Term<kSquare>(ToFloat(x[i]));
  return sum;
}

template <bool kSquare>
__global__ __launch_bounds__(kThreads) void SumChunksKernel(
    const __grid_constant__ SumTable table) {
  const int chunk = blockIdx.x;
  int low = 0, high = table.count - 1;  // the last tensor that starts at or before the chunk
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.tensors[middle].chunk <= chunk) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const SumTensor& tensor = table.tensors[low];
  const int64_t first = (chunk - tensor.chunk) * kSumChunk;
  const int n = static_cast<int>(min(kSumChunk, tensor.elements - first));
  double sum = 0;
  switch (tensor.dtype) {
    case graph::DType::kBFloat16:
      sum = ThreadSum<__nv_bfloat16, kSquare>(
          static_cast<const __nv_bfloat16*>(tensor.data) + first, n);
      break;
    case graph::DType::kFloat16:
      sum = ThreadSum<__half, kSquare>(static_cast<const __half*>(tensor.data) + first, n);
      break;
    default:
      sum = ThreadSum<float, kSquare>(static_cast<const float*>(tensor.data) + first, n);
  }
  sum = BlockTotal(sum);
  if (threadIdx.x == 0) table.partials[chunk] = sum;
}

__global__ __launch_bounds__(1024) void AddChunksKernel(const double* partials, int64_t count,
                                                        bool root, float* out) {
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += partials[i];
  sum = BlockTotal(sum);
  if (threadIdx.x == 0) *out = static_cast<float>(root ? sqrt(sum) : sum);
}

template <bool kSquare>
void SumInputs(const CudaContext& ctx, bool root) {
  auto* partials = static_cast<double*>(ctx.workspace);
  int64_t chunks = 0;
  SumTable table;
  const auto launch = [&] {
    if (table.chunks > 0) {
      SumChunksKernel<kSquare>
          <<<static_cast<unsigned>(table.chunks), kThreads, 0, ctx.stream>>>(table);
      gpu::CheckLaunch("sums of chunks");
    }
    chunks += table.chunks;
    table.count = table.chunks = 0;
  };
  for (const TensorRef& input : ctx.inputs) {
    const int64_t elements = input.type.shape.elements();
    if (elements == 0) continue;
    if (table.count == kMaxTensors) launch();
    table.partials = partials + chunks;
    table.tensors[table.count++] = {input.data, elements, table.chunks, input.type.dtype};
    table.chunks += static_cast<int>(SumChunks(elements));
  }
  launch();
  AddChunksKernel<<<1, 1024, 0, ctx.stream>>>(partials, chunks, root, ctx.out<float>(0));
  gpu::CheckLaunch("sum of chunks");
}

__global__ void ClipFactorKernel(const float* norm, float max_norm, float* out) {
  const float factor = max_norm / (*norm + 1e-6f);
  *out = factor > 1 ? 1 : factor;  // NaN stays
}

void ClipFactor(const CudaContext& ctx) {
  ClipFactorKernel<<<1, 1, 0, ctx.stream>>>(
      ctx.in<float>(0), static_cast<float>(ctx.attributes.GetReal("max_norm")), ctx.out<float>(0));
  gpu::CheckLaunch("clip_factor");
}

const CudaKernelRegistration kSum({"sum", [](const CudaContext& ctx) {
                                     SumInputs<false>(ctx, /*root=*/false);
                                   }});
const CudaKernelRegistration kSquaredNorm({"squared_norm", [](const CudaContext& ctx) {
                                             SumInputs<true>(ctx, /*root=*/false);
                                           }});
const CudaKernelRegistration kGlobalNorm({"global_norm", [](const CudaContext& ctx) {
                                            SumInputs<true>(ctx, /*root=*/true);
                                          }});
const CudaKernelRegistration kClipFactor({"clip_factor", &ClipFactor});

}  // namespace
}  // namespace plimsoll::ops
