// Threads share chunks of elements, and store the sum of each chunk, in double, in the workspace.
// Then the calling thread adds the chunks of each tensor in their order, and then the tensors.
// Bytes: n·s.
#include <algorithm>
#include <cmath>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kChunk = 4 * kElementwiseGrain;

int64_t Chunks(int64_t elements) { return (elements + kChunk - 1) / kChunk; }

// Four elements as doubles: the first `count` from memory, the others zero.
inline Vec<double> LoadDoubles(const double* from, int count = 4) {
  return Load<double>(from, count);
}
inline Vec<double> LoadDoubles(const float* from, int count = 4) {
  typedef float Four __attribute__((vector_size(16)));
  Four four = {};
  std::memcpy(&four, from, count * sizeof(float));
  return __builtin_convertvector(four, Vec<double>);
}
inline Vec<double> LoadDoubles(const BFloat16* from, int count = 4) {
  __m128i bits = _mm_setzero_si128();
  std::memcpy(&bits, from, count * sizeof(BFloat16));
  const __m128i floats = _mm_slli_epi32(_mm_cvtepu16_epi32(bits), 16);
  return reinterpret_cast<Vec<double>>(_mm256_cvtps_pd(_mm_castsi128_ps(floats)));
}
inline Vec<double> LoadDoubles(const Float16* from, int count = 4) {
  __m128i bits = _mm_setzero_si128();
  std::memcpy(&bits, from, count * sizeof(Float16));
  return reinterpret_cast<Vec<double>>(_mm256_cvtps_pd(_mm_cvtph_ps(bits)));
}

template <typename S>
double ChunkSum(const S* x, int64_t n) {
  return SumVectors<double>(n, [=](int64_t i, auto count) { return LoadDoubles(x + i, count); });
}

template <typename S>
double ChunkSquares(const S* x, int64_t n) {
  return SumVectors<double>(n, [=](int64_t i, auto count) {
    const Vec<double> v = LoadDoubles(x + i, count);
    return v * v;
  });
}

// Adds chunk_sum(input, first element, elements) over the chunks of all inputs.
template <typename ChunkSumOf>
double SumInputs(const CpuContext& ctx, const ChunkSumOf& chunk_sum) {
  double* partial = static_cast<double*>(ctx.workspace);
  int64_t chunks = 0;
  for (const TensorRef& input : ctx.inputs) chunks += Chunks(input.type.shape.elements());
  ctx.pool.ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      size_t input = 0;
      int64_t within = chunk;
      int64_t elements = ctx.in_shape(0).elements();
      while (within >= Chunks(elements)) {
        within -= Chunks(elements);
        elements = ctx.in_shape(++input).elements();
      }
      const int64_t first = within * kChunk;
      partial[chunk] = chunk_sum(input, first, std::min(kChunk, elements - first));
    }
  });
  double total = 0;
  for (const TensorRef& input : ctx.inputs) {
    double of_tensor = 0;
    for (int64_t left = Chunks(input.type.shape.elements()); left > 0; --left)
      of_tensor += *partial++;
    total += of_tensor;
  }
  return total;
}

double SumSquares(const CpuContext& ctx) {
  return SumInputs(ctx, [&](size_t input, int64_t first, int64_t n) {
    double sum = 0;
    DispatchStored(ctx.inputs[input].type.dtype,
                   [&]<typename S>() { sum = ChunkSquares(ctx.in<S>(input) + first, n); });
    return sum;
  });
}

void Sum(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    *ctx.out<T>(0) = static_cast<T>(SumInputs(
        ctx, [&](size_t, int64_t first, int64_t n) { return ChunkSum(ctx.in<S>(0) + first, n); }));
  });
}

void SquaredNorm(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    *ctx.out<T>(0) = static_cast<T>(SumSquares(ctx));
  });
}

void GlobalNorm(const CpuContext& ctx) {
  *ctx.out<float>(0) = static_cast<float>(std::sqrt(SumSquares(ctx)));
}

void SquareSum(const CpuContext& ctx) { *ctx.out<double>(0) = SumSquares(ctx); }

void RootOfSums(const CpuContext& ctx) {
  double total = 0;
  for (size_t i = 0; i < ctx.inputs.size(); ++i) total += *ctx.in<double>(i);
  *ctx.out<float>(0) = static_cast<float>(std::sqrt(total));
}

void ClipFactor(const CpuContext& ctx) {
  const float max_norm = static_cast<float>(ctx.attributes.GetReal("max_norm"));
  const float factor = max_norm / (*ctx.in<float>(0) + 1e-6f);
  // A NaN norm makes the factor NaN, so that it is detected in the step.
  *ctx.out<float>(0) = factor > 1 ? 1 : factor;
}

int64_t SumWorkspace(const graph::OpCall& call, int) {
  int64_t chunks = 0;
  for (const graph::TensorType* type : call.inputs) chunks += Chunks(type->shape.elements());
  return chunks * static_cast<int64_t>(sizeof(double));
}

const CpuKernelRegistration kSum({"sum", &Sum, &SumWorkspace});
const CpuKernelRegistration kSquaredNorm({"squared_norm", &SquaredNorm, &SumWorkspace});
const CpuKernelRegistration kGlobalNorm({"global_norm", &GlobalNorm, &SumWorkspace});
const CpuKernelRegistration kSquareSum({"square_sum", &SquareSum, &SumWorkspace});
const CpuKernelRegistration kRootOfSums({"root_of_sums", &RootOfSums});
const CpuKernelRegistration kClipFactor({"clip_factor", &ClipFactor});

}  // namespace
}  // namespace plimsoll::ops
