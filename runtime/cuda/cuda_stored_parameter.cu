// Fills a parameter: its element i becomes draw n(i), or value n(i) of a checkpoint, and is stored
// in all forms of the parameter:
//
//   f32                 the float itself
//   bf16 + remainder    the two parts of Split
//   f16 or bf16         rounded to nearest, and the float itself where there is a master
//
// A thread makes groups of four neighbouring elements, in grid-stride loops. Groups begin where
// four of the parameter's own elements are aligned. So each access of a warp is contiguous, in
// pinned host memory, too. Elements of a group that is incomplete, or not aligned in another form
// or in the values, are accessed one by one.
//
// Bytes moved: each value and each form once. Draws read nothing.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/initial_draws.h"
#include "base/low_precision.h"
#include "gpu/check.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/philox.cuh"
#include "runtime/cuda/cuda_stored_parameter.h"

namespace plimsoll::runtime {
namespace {

using graph::DType;

constexpr int kThreads = 256;
constexpr int kGroup = 4;  // elements per thread, and per block of draws

// The arithmetic of base/initial_draws.h on the GPU, with the same draws to the bit. The intrinsics
// round each operation and are never contracted.
struct DrawArithmetic {
  using Float = float;
  using Bits = uint32_t;

  __device__ static float Splat(float value) { return value; }
  __device__ static uint32_t SplatBits(uint32_t value) { return value; }
  __device__ static float Multiply(float a, float b) { return __fmul_rn(a, b); }
  __device__ static float Add(float a, float b) { return __fadd_rn(a, b); }
  __device__ static float Root(float a) { return __fsqrt_rn(a); }
  __device__ static float FromInteger(uint32_t a) { return __int2float_rn(static_cast<int>(a)); }
  __device__ static float AsFloat(uint32_t a) { return __uint_as_float(a); }
  __device__ static uint32_t AsBits(float a) { return __float_as_uint(a); }
  __device__ static uint32_t NotBelow(uint32_t a, uint32_t bound) {
    return a >= bound ? 0xFFFFFFFFu : 0u;
  }
  __device__ static float Choose(uint32_t mask, float a, float b) { return mask != 0 ? a : b; }
};

// Makes the draws of elements 4 · block … 4 · block + 3.
__device__ void DrawBlock(const InitialDraws& draws, int64_t block, float (&values)[4]) {
  if (draws.kind == InitialDraws::Kind::kConstant) {
#pragma unroll
    for (float& value : values) value = draws.scale;
    return;
  }
  const uint2 key =
      make_uint2(static_cast<uint32_t>(draws.seed), static_cast<uint32_t>(draws.seed >> 32));
  const uint4 words = ops::PhiloxBlock(key, draws.stream, static_cast<uint64_t>(block));
  if (draws.kind == InitialDraws::Kind::kNormal) {
    const auto low = DrawNormals<DrawArithmetic>(words.x, words.y, draws.scale);
    const auto high = DrawNormals<DrawArithmetic>(words.z, words.w, draws.scale);
    values[0] = low.first;
    values[1] = low.second;
    values[2] = high.first;
    values[3] = high.second;
  } else {
    values[0] = DrawUniform<DrawArithmetic>(words.x, draws.scale);
    values[1] = DrawUniform<DrawArithmetic>(words.y, draws.scale);
    values[2] = DrawUniform<DrawArithmetic>(words.z, draws.scale);
    values[3] = DrawUniform<DrawArithmetic>(words.w, draws.scale);
  }
}

struct DrawSource {
  InitialDraws draws;

  __device__ void Group(int64_t number, float (&values)[kGroup]) const {
    if (number % kGroup == 0) return DrawBlock(draws, number / kGroup, values);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) values[i] = One(number + i);
  }
  __device__ float One(int64_t number) const {
    float values[kGroup];
    DrawBlock(draws, number / kGroup, values);
    const int64_t which = number % kGroup;
    return which < 2 ? (which == 0 ? values[0] : values[1]) : (which == 2 ? values[2] : values[3]);
  }
};

__device__ float FloatOf(float value) { return value; }
__device__ float FloatOf(BFloat16 value) { return ToFloat(value); }
__device__ float FloatOf(Float16 value) { return ToFloat(value); }

template <typename T>
struct ValueSource {
  const T* values;

  __device__ void Group(int64_t number, float (&to)[kGroup]) const {
    const T* const from = values + number;
    if (reinterpret_cast<uintptr_t>(from) % sizeof(ops::Pack<T, kGroup>) != 0) {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) to[i] = FloatOf(from[i]);
      return;
    }
    const auto pack = *reinterpret_cast<const ops::Pack<T, kGroup>*>(from);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) to[i] = FloatOf(pack.values[i]);
  }
  __device__ float One(int64_t number) const { return FloatOf(values[number]); }
};

// The 16-bit forms of one element.
struct Forms {
  uint16_t low;
  int16_t remainder;
};
__device__ Forms FormsOf(const StoredParameter& to, float value) {
  if (to.has_remainder) {
    const SplitFloat split = Split(value);
    return {split.high.bits, split.low};
  }
  return {to.dtype == DType::kBFloat16 ? ToBf16(value) : ToF16(value), 0};
}

__device__ void StoreOne(const StoredParameter& to, int64_t i, float value) {
  if (to.dtype == DType::kFloat32) {
    reinterpret_cast<float*>(to.data)[i] = value;
    return;
  }
  const Forms forms = FormsOf(to, value);
  reinterpret_cast<uint16_t*>(to.data)[i] = forms.low;
  if (to.remainder != nullptr) to.remainder[i] = forms.remainder;
  if (to.master != nullptr) to.master[i] = value;
}

template <typename T>
__device__ void StorePack(T* to, const T (&values)[kGroup]) {
  ops::Pack<T, kGroup> pack;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) pack.values[i] = values[i];
  *reinterpret_cast<ops::Pack<T, kGroup>*>(to) = pack;
}

// Stores elements i … i + 3, if all forms are aligned there.
__device__ void StoreGroup(const StoredParameter& to, int64_t i, const float (&values)[kGroup]) {
  if (to.dtype == DType::kFloat32) {
    return StorePack(reinterpret_cast<float*>(to.data) + i, values);
  }
  uint16_t low[kGroup];
  int16_t remainder[kGroup];
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    const Forms forms = FormsOf(to, values[k]);
    low[k] = forms.low;
    remainder[k] = forms.remainder;
  }
  StorePack(reinterpret_cast<uint16_t*>(to.data) + i, low);
  if (to.remainder != nullptr) StorePack(to.remainder + i, remainder);
  if (to.master != nullptr) StorePack(to.master + i, values);
}

// `lead`: the number of elements missing before the first group. `aligned`: whether all forms are
// aligned where `data` is.
template <typename Source>
__global__ void StoreKernel(StoredParameter to, Stripe from, Source source, int lead,
                            bool aligned) {
  const int64_t groups = (to.elements + lead + kGroup - 1) / kGroup;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t g = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; g < groups; g += stride) {
    const int64_t first = g * kGroup - lead;
    if (aligned && first >= 0 && first + kGroup <= to.elements && from.Together(first) >= kGroup) {
      float values[kGroup];
      source.Group(from.Number(first), values);
      StoreGroup(to, first, values);
      continue;
    }
    const int64_t end = min(first + kGroup, to.elements);
#pragma unroll 1
    for (int64_t i = max(first, int64_t{0}); i < end; ++i) {
      StoreOne(to, i, source.One(from.Number(i)));
    }
  }
}

template <typename Source>
void Launch(const StoredParameter& to, const Stripe& from, const Source& source,
            cudaStream_t stream) {
  if (to.elements == 0) return;
  // Groups begin where `data` is aligned to a group; the other forms may be misaligned there.
  const auto at = [](const void* pointer, int64_t size) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)) / size % kGroup;
  };
  const int64_t lead = at(to.data, graph::ByteSize(to.dtype));
  const bool aligned = (to.remainder == nullptr || at(to.remainder, sizeof(int16_t)) == lead) &&
                       (to.master == nullptr || at(to.master, sizeof(float)) == lead);
  constexpr int64_t kMostBlocks = 8192;
  const int64_t groups = (to.elements + lead + kGroup - 1) / kGroup;
  const auto blocks =
      static_cast<unsigned>(std::min((groups + kThreads - 1) / kThreads, kMostBlocks));
  StoreKernel<Source>
      <<<blocks, kThreads, 0, stream>>>(to, from, source, static_cast<int>(lead), aligned);
  gpu::CheckLaunch("Store");
}

template <typename T>
void LaunchValues(const StoredParameter& to, const Stripe& from, const TypedElements& values,
                  cudaStream_t stream) {
  Launch(to, from, ValueSource<T>{reinterpret_cast<const T*>(values.data)}, stream);
}

}  // namespace

void EnqueueDraws(const StoredParameter& to, const Stripe& from, const InitialDraws& draws,
                  cudaStream_t stream) {
  Launch(to, from, DrawSource{draws}, stream);
}

void EnqueueValues(const StoredParameter& to, const Stripe& from, const TypedElements& values,
                   cudaStream_t stream) {
  switch (values.dtype) {
    case DType::kFloat32:
      return LaunchValues<float>(to, from, values, stream);
    case DType::kBFloat16:
      return LaunchValues<BFloat16>(to, from, values, stream);
    case DType::kFloat16:
      return LaunchValues<Float16>(to, from, values, stream);
    default:
      throw InternalError("a parameter's values are no floats");
  }
}

void LoadStores() {
  const auto load = [](auto* kernel) {
    cudaFuncAttributes attributes;
    gpu::Check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  };
  load(&StoreKernel<DrawSource>);
  load(&StoreKernel<ValueSource<float>>);
  load(&StoreKernel<ValueSource<BFloat16>>);
  load(&StoreKernel<ValueSource<Float16>>);
}

}  // namespace plimsoll::runtime
