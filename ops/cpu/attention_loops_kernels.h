// What one instruction set provides for attention. Internal to ops/cpu/attention_loops*.
#pragma once

#include <cstdint>

#include "ops/cpu/attention_loops.h"

namespace plimsoll::cpu::internal {

// Widest panel of queries (two registers) in bytes: sizes of scratch are multiples of it, so that
// they are equal for every instruction set.
inline constexpr int64_t kPanelBytes = 128;
// Keys in a tile, and queries in a tile of the backward pass.
inline constexpr int64_t kTile = 64;

template <typename S>
struct AttentionKernels {
  using T = AttentionCompute<S>;
  void (*forward)(const AttentionForward<S>& task, T* scratch);
  void (*backward)(const AttentionBackward<S>& task, T* scratch);
};

template <typename S>
const AttentionKernels<S>& Avx2Attention();
template <typename S>
const AttentionKernels<S>& Avx512Attention();

template <>
const AttentionKernels<float>& Avx2Attention<float>();
template <>
const AttentionKernels<double>& Avx2Attention<double>();
template <>
const AttentionKernels<BFloat16>& Avx2Attention<BFloat16>();
template <>
const AttentionKernels<Float16>& Avx2Attention<Float16>();
template <>
const AttentionKernels<float>& Avx512Attention<float>();
template <>
const AttentionKernels<double>& Avx512Attention<double>();
template <>
const AttentionKernels<BFloat16>& Avx512Attention<BFloat16>();
template <>
const AttentionKernels<Float16>& Avx512Attention<Float16>();

}  // namespace plimsoll::cpu::internal
