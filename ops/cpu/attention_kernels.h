// What one instruction set provides for attention. Internal to ops/cpu/attention*.
#pragma once

#include <cstdint>

#include "ops/cpu/attention.h"

namespace plimsoll::cpu::internal {

// Widest panel of queries (two registers) in bytes: sizes of scratch are multiples of it, so that
// they are the same for every instruction set.
inline constexpr int64_t kPanelBytes = 128;
// Keys, and queries of the backward pass, in a tile.
inline constexpr int64_t kTile = 64;

template <typename T>
struct AttentionKernels {
  void (*forward)(const AttentionForward<T>& task, T* scratch);
  void (*backward)(const AttentionBackward<T>& task, T* scratch);
};

template <typename T>
const AttentionKernels<T>& Avx2Attention();
template <typename T>
const AttentionKernels<T>& Avx512Attention();

template <>
const AttentionKernels<float>& Avx2Attention<float>();
template <>
const AttentionKernels<double>& Avx2Attention<double>();
template <>
const AttentionKernels<float>& Avx512Attention<float>();
template <>
const AttentionKernels<double>& Avx512Attention<double>();

}  // namespace plimsoll::cpu::internal
