// Sums over complete tensors, in three stages: a block of threads sums a chunk of 32,768 elements
// of one tensor, another block adds the chunks of a tensor, and one block adds the tensors; always
// in a fixed order. The first two stages are one launch each for up to 800 tensors, whose addresses
// are in the kernel's parameter. A thread adds the 4 or 8 elements of a 16-byte load in f32, and
// these sums in f64. Infinities and NaNs propagate: the norm of gradients that overflowed is not
// finite. Bytes: n·s.
//
// Squares are f32: the square of an element above 1.8e19 is infinite.
#include <algorithm>
#include <cstring>
#include <span>

#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/launch_table.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/reductions/sum_chunks.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kTotalThreads = 1024;
constexpr int kMaxTensors = 800;

struct SumTensor {
  const void* data;
  int64_t elements;
  double* partials;  // partial sums of its chunks
  double* total;
  int first_block;  // the block of the tensor's first chunk; each chunk has a block
  graph::DType dtype;
};

// The table takes nearly all of the 32,764 bytes that a kernel's parameters may have.
struct SumTable {
  SumTensor tensors[kMaxTensors];
  int count = 0;
  int chunks = 0;
};

__device__ double WarpSum(double x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// The sum over a block, which is valid in the first thread.
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
  const SumTensor& tensor = EntryOf(table.tensors, table.count, chunk);
  const int64_t first = (chunk - tensor.first_block) * kSumChunk;
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
  if (threadIdx.x == 0) tensor.partials[chunk - tensor.first_block] = sum;
}

// The sum of an array, computed by one block and valid in its first thread.
__device__ double Total(const double* values, int64_t count) {
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += values[i];
  return BlockTotal(sum);
}

__global__ __launch_bounds__(kThreads) void AddChunksKernel(
    const __grid_constant__ SumTable table) {
  const SumTensor& tensor = table.tensors[blockIdx.x];
  const double total = Total(tensor.partials, (tensor.elements + kSumChunk - 1) / kSumChunk);
  if (threadIdx.x == 0) *tensor.total = total;
}

__global__ __launch_bounds__(kTotalThreads) void AddTensorsKernel(const double* totals,
                                                                  int64_t count, bool root,
                                                                  float* out) {
  const double total = Total(totals, count);
  if (threadIdx.x == 0) *out = static_cast<float>(root ? sqrt(total) : total);
}

// Launches the first two stages for tensors that are added one by one.
template <bool kSquare>
class TensorSums {
 public:
  explicit TensorSums(cudaStream_t stream) : stream_(stream) {}

  void Add(const TensorRef& tensor, double* partials, double* total) {
    if (table_.count == kMaxTensors) Launch();
    const int64_t elements = tensor.type.shape.elements();
    table_.tensors[table_.count++] = {tensor.data, elements,      partials,
                                      total,       table_.chunks, tensor.type.dtype};
    table_.chunks += static_cast<int>(SumChunks(elements));
  }

  void Launch() {
    if (table_.chunks > 0) {
      SumChunksKernel<kSquare>
          <<<static_cast<unsigned>(table_.chunks), kThreads, 0, stream_>>>(table_);
      gpu::CheckLaunch("sums of chunks");
    }
    if (table_.count > 0) {
      AddChunksKernel<<<static_cast<unsigned>(table_.count), kThreads, 0, stream_>>>(table_);
      gpu::CheckLaunch("sums of tensors");
    }
    table_.count = table_.chunks = 0;
  }

 private:
  cudaStream_t stream_;
  SumTable table_;
};

void AddTensors(const CudaContext& ctx, const double* totals, bool root) {
  AddTensorsKernel<<<1, kTotalThreads, 0, ctx.stream>>>(
      totals, static_cast<int64_t>(ctx.inputs.size()), root, ctx.out<float>(0));
  gpu::CheckLaunch("sum of tensors");
}

template <bool kSquare, bool kRoot>
void SumInputs(const CudaContext& ctx) {
  auto* const totals = static_cast<double*>(ctx.workspace);
  double *total = totals, *partials = totals + ctx.inputs.size();
  TensorSums<kSquare> sums(ctx.stream);
  for (const TensorRef& input : ctx.inputs) {
    sums.Add(input, partials, total++);
    partials += SumChunks(input.type.shape.elements());
  }
  sums.Launch();
  AddTensors(ctx, totals, kRoot);
}

void SquareSums(std::span<const CudaContext> calls) {
  TensorSums</*kSquare=*/true> sums(calls[0].stream);
  for (const CudaContext& ctx : calls) {
    sums.Add(ctx.inputs[0], static_cast<double*>(ctx.workspace), ctx.out<double>(0));
  }
  sums.Launch();
}

struct ScalarTable {
  const double* scalars[kMaxTensors];
};

__global__ void GatherScalarsKernel(const __grid_constant__ ScalarTable table, int count,
                                    double* to) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] = *table.scalars[i];
}

void RootOfSums(const CudaContext& ctx) {
  auto* const totals = static_cast<double*>(ctx.workspace);
  for (size_t begin = 0; begin < ctx.inputs.size(); begin += kMaxTensors) {
    ScalarTable table;
    const auto count = static_cast<int>(std::min<size_t>(kMaxTensors, ctx.inputs.size() - begin));
    for (int i = 0; i < count; ++i)
      table.scalars[i] = ctx.in<double>(begin + static_cast<size_t>(i));
    GatherScalarsKernel<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0,
                          ctx.stream>>>(table, count, totals + begin);
    gpu::CheckLaunch("root_of_sums");
  }
  AddTensors(ctx, totals, /*root=*/true);
}

__global__ void ClipFactorKernel(const float* norm, float max_norm, float* out) {
  const float factor = max_norm / (*norm + 1e-6f);
  *out = factor > 1 ? 1 : factor;  // NaN stays NaN
}

void ClipFactor(const CudaContext& ctx) {
  ClipFactorKernel<<<1, 1, 0, ctx.stream>>>(
      ctx.in<float>(0), static_cast<float>(ctx.attributes.GetReal("max_norm")), ctx.out<float>(0));
  gpu::CheckLaunch("clip_factor");
}

void SquareSum(const CudaContext& ctx) { SquareSums({&ctx, 1}); }

const CudaKernelRegistration kSum({"sum", &SumInputs<false, false>});
const CudaKernelRegistration kSquaredNorm({"squared_norm", &SumInputs<true, false>});
const CudaKernelRegistration kGlobalNorm({"global_norm", &SumInputs<true, true>});
const CudaKernelRegistration kSquareSum({.op = "square_sum",
                                         .run = &SquareSum,
                                         .run_group = &SquareSums});
const CudaKernelRegistration kRootOfSums({"root_of_sums", &RootOfSums});
const CudaKernelRegistration kClipFactor({"clip_factor", &ClipFactor});

}  // namespace
}  // namespace plimsoll::ops
