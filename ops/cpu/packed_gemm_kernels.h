// The functions that one instruction set provides for GEMM: packing, and the product of packed
// blocks. Internal to ops/cpu/packed_gemm*; packed_gemm.cc divides the work and calls these.
//
// Packed A: the rows of a block are split evenly into panels of at most `mr` rows; packed B: the
// columns into strips of `nr`, the last one padded with zeros.
//
//   A from A[m,k]   panel, chunk of `vec` values of k, row, k within the chunk: rows are copied
//                   cache line by cache line, never transposed
//   A from A[k,m]   panel, k, row (padded to `a_stride` rows)
//   B               strip, k, column (nr)
//
// Packed values have the type that the register kernel computes with: 16-bit ones become floats
// here.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/low_precision.h"

namespace plimsoll::cpu::internal {

// Splits rows [0, rows) into panels of at most `mr` rows, whose sizes differ by at most one.
struct PanelSplit {
  PanelSplit(int64_t rows, int64_t mr)
      : count((rows + mr - 1) / mr),
        small(count > 0 ? rows / count : 0),
        large(count > 0 ? rows % count : 0) {}
  int64_t Begin(int64_t panel) const { return panel * small + (panel < large ? panel : large); }
  int64_t Rows(int64_t panel) const { return small + (panel < large ? 1 : 0); }

  int64_t count;
  int64_t small;  // number of rows in a smaller panel
  int64_t large;  // number of panels with one row more; they come first
};

// How a product of blocks is added to C: acc = A·B over one block of k; then
//   first block of k:  C = alpha · acc + (beta · C + bias)
//   later blocks:      C = alpha · acc + C
template <typename T>
struct Epilogue {
  T alpha;
  T beta;
  const T* bias;  // the bias of the block's first column, or nullptr
  bool first;
};

template <typename T>
struct KernelSet {
  int64_t mr;        // the most rows of a panel
  int64_t nr;        // columns of a strip
  int64_t vec;       // values in a register
  int64_t a_stride;  // mr rounded up to full registers

  // Adds the product of panels × strips to C, whose block begins at `c`.
  void (*multiply)(bool trans_a, const T* packed_a, int64_t panel_size, const PanelSplit& split,
                   int64_t panel_begin, int64_t panel_end, const T* packed_b, int64_t columns,
                   int64_t strip_begin, int64_t strip_end, int64_t kc, T* c, int64_t ldc,
                   const Epilogue<T>& epilogue);
};

// The functions that pack a matrix stored as S.
template <typename S>
struct Packing {
  using T = std::conditional_t<std::is_same_v<S, double>, double, float>;

  // Packs panels [panel_begin, panel_end) of a block of A whose first element is at `a`; `packed`
  // is the block's first panel, and panels are panel_size apart.
  void (*pack_a)(bool trans, const S* a, int64_t lda, const PanelSplit& split, int64_t panel_begin,
                 int64_t panel_end, int64_t kc, T* packed, int64_t panel_size);
  // Packs strips [strip_begin, strip_end) of a block of B that has `columns` columns in all; strips
  // are nr · kc apart.
  void (*pack_b)(bool trans, const S* b, int64_t ldb, int64_t columns, int64_t strip_begin,
                 int64_t strip_end, int64_t kc, T* packed);
};

template <typename T>
const KernelSet<T>& Avx2Kernels();
template <>
const KernelSet<float>& Avx2Kernels<float>();
template <>
const KernelSet<double>& Avx2Kernels<double>();

template <typename S>
const Packing<S>& Avx2Packing();
template <>
const Packing<float>& Avx2Packing<float>();
template <>
const Packing<double>& Avx2Packing<double>();
template <>
const Packing<BFloat16>& Avx2Packing<BFloat16>();
template <>
const Packing<Float16>& Avx2Packing<Float16>();

template <typename T>
const KernelSet<T>& Avx512Kernels();
template <>
const KernelSet<float>& Avx512Kernels<float>();
template <>
const KernelSet<double>& Avx512Kernels<double>();

template <typename S>
const Packing<S>& Avx512Packing();
template <>
const Packing<float>& Avx512Packing<float>();
template <>
const Packing<double>& Avx512Packing<double>();
template <>
const Packing<BFloat16>& Avx512Packing<BFloat16>();
template <>
const Packing<Float16>& Avx512Packing<Float16>();

}  // namespace plimsoll::cpu::internal
