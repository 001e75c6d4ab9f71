// Elements of tensors on the GPU: types, 16-byte packs, and dispatch by dtype. Kernels compute in
// float for all types in memory (only the CPU's tests use double).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "graph/dtype.h"

namespace plimsoll::ops {

// Calls body.template operator()<float, __nv_bfloat16 or __half>().
template <typename Body>
void DispatchCuda(graph::DType dtype, Body&& body) {
  switch (dtype) {
    case graph::DType::kFloat32:
      return body.template operator()<float>();
    case graph::DType::kBFloat16:
      return body.template operator()<__nv_bfloat16>();
    case graph::DType::kFloat16:
      return body.template operator()<__half>();
    default:
      throw InternalError("no CUDA kernel for dtype " + std::string(graph::Name(dtype)));
  }
}

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float ToFloat(__half x) { return __half2float(x); }
__device__ inline float ToFloat(int32_t x) { return static_cast<float>(x); }

// Rounds to nearest, ties to even.
template <typename T>
__device__ T FromFloat(float x);
template <>
__device__ inline float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half FromFloat<__half>(float x) {
  return __float2half_rn(x);
}
// Rounds towards zero, like a C++ conversion.
template <>
__device__ inline int32_t FromFloat<int32_t>(float x) {
  return static_cast<int32_t>(x);
}

// N elements that are loaded and stored at once: a thread's widest access is 16 bytes.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

template <typename T>
inline constexpr int kPackSize = 16 / static_cast<int>(sizeof(T));

// Whether all these addresses may be read and written 16 bytes at a time; nullptr is ignored.
template <typename... Pointers>
bool Aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) | ...) % 16) == 0;
}

// Makes the compiler forget what it derived from these elements. So the elements stay in registers
// until their next use, and not twice as many floats.
template <typename T, int N>
__device__ void KeepPacked(Pack<T, N>& pack) {
  static_assert(sizeof(pack) == 16);
  auto& words = reinterpret_cast<uint4&>(pack);
  asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w));
}

// Converts all elements of a pack. bf16 elements, which are the upper halves of floats, are
// converted two at a time: this needs one instruction for each, instead of two.
template <int N, typename T>
__device__ void ToFloats(const Pack<T, N>& pack, float (&to)[N]) {
  if constexpr (std::is_same_v<T, __nv_bfloat16> && N % 2 == 0) {
    const auto words = reinterpret_cast<const Pack<uint32_t, N / 2>&>(pack);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      to[2 * i] = __uint_as_float(words.values[i] << 16);
      to[2 * i + 1] = __uint_as_float(words.values[i] & 0xffff0000);
    }
  } else if constexpr (std::is_same_v<T, __half> && N % 2 == 0) {
    const auto pairs = reinterpret_cast<const Pack<__half2, N / 2>&>(pack);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const float2 pair = __half22float2(pairs.values[i]);
      to[2 * i] = pair.x;
      to[2 * i + 1] = pair.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = ToFloat(pack.values[i]);
  }
}

template <int N, typename T>
__device__ void LoadPack(const T* from, float (&to)[N]) {
  ToFloats(*reinterpret_cast<const Pack<T, N>*>(from), to);
}

template <int N, typename T>
__device__ void StorePack(T* to, const float (&from)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.values[i] = FromFloat<T>(from[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Rounds values that are used only after rounding: two at a time if the type has an instruction for
// it.
template <typename T, int N>
__device__ Pack<T, N> RoundPack(const float (&from)[N]) {
  Pack<T, N> pack;
  if constexpr (std::is_same_v<T, __nv_bfloat16> && N % 2 == 0) {
    auto* pairs = reinterpret_cast<__nv_bfloat162*>(pack.values);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      pairs[i] = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
    }
  } else if constexpr (std::is_same_v<T, __half> && N % 2 == 0) {
    auto* pairs = reinterpret_cast<__half2*>(pack.values);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) pairs[i] = __floats2half2_rn(from[2 * i], from[2 * i + 1]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) pack.values[i] = FromFloat<T>(from[i]);
  }
  return pack;
}

// Two elements in a word, the first one in its lower half.
template <typename T>
__device__ uint32_t PackTwo(float low, float high) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(two);
  } else {
    const __half2 two = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(two);
  }
}

// Writes a pack to global memory in one access. Otherwise, the compiler splits a pack into elements
// or words when these are used elsewhere as well. Loads from other addresses may move before or
// after it.
template <int N, typename T>
__device__ void WriteGlobal(T* to, const Pack<T, N>& pack) {
  const size_t address = __cvta_generic_to_global(to);
  if constexpr (sizeof(pack) == 16) {
    uint4 w;
    memcpy(&w, &pack, sizeof(w));
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(w.x), "r"(w.y),
                 "r"(w.z), "r"(w.w));
  } else if constexpr (sizeof(pack) == 8) {
    uint2 w;
    memcpy(&w, &pack, sizeof(w));
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(w.x), "r"(w.y));
  } else {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
  }
}

// Rounds and writes a pack to global memory.
template <int N, typename T>
__device__ void StoreGlobal(T* to, const float (&from)[N]) {
  WriteGlobal(to, RoundPack<T, N>(from));
}

}  // namespace plimsoll::ops
