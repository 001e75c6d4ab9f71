// The packing and the register kernel of GEMM, written once over a vector type. Included by
// exactly one file per instruction set, which compiles it with that set's flags: everything here
// has internal linkage, so that the linker cannot mix the versions.
//
// Register kernel: mr rows × 2 vectors of accumulators (14 × 2 of AVX-512's 32 registers, 6 × 2 of
// AVX2's 16), per step of k two loads from the B strip and one broadcast per row of A:
// 2·mr fused multiply-adds for mr + 2 loads.
//
// A vector type V provides: T, Reg, kWidth, and Load, Store, LoadFirst(p, count) (the rest zero),
// StoreFirst(p, reg, count), Broadcast(p), Zero, Fma(a, b, c) = a·b + c, and Accumulate(c, a, b).
// Accumulate computes the same into c as a separate instruction: otherwise the compiler reorders
// the loop's multiply-adds and swaps their operands until the accumulators no longer fit the
// registers. LoadFirst and StoreFirst take 0 ≤ count, where count ≥ kWidth means all, and access no
// memory beyond count values. If T is float, Load and LoadFirst also read BFloat16 and Float16,
// widening them.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "ops/cpu/packed_gemm_kernels.h"
#include "ops/cpu/register_transpose_impl.h"

namespace plimsoll::cpu::internal {
namespace {

template <typename V, int kMaxRows>
struct Kernels {
  using T = typename V::T;
  using Reg = typename V::Reg;
  static constexpr int kWidth = V::kWidth;
  static constexpr int kColumns = 2 * kWidth;
  static constexpr int kStrideA = (kMaxRows + kWidth - 1) / kWidth * kWidth;
  // The number of steps of k in an unrolled loop body.
  static constexpr int kUnroll = 4;

  // One step of k, or `steps` of them. `a` is the first row's value; rows are row_stride apart, and
  // steps step_stride.
  template <int kRows, int kRowStride, int kStepStride>
  static inline __attribute__((always_inline)) void Step(const T* a, const T* b,
                                                         Reg (&acc)[kRows][2]) {
    const Reg b0 = V::Load(b);
    const Reg b1 = V::Load(b + kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Reg value = V::Broadcast(a + i * kRowStride);
      V::Accumulate(acc[i][0], value, b0);
      V::Accumulate(acc[i][1], value, b1);
    }
  }

  template <int kRows>
  static inline __attribute__((always_inline)) void AddInto(T* c, int64_t ldc, int64_t columns,
                                                            const Epilogue<T>& epilogue,
                                                            Reg (&acc)[kRows][2]) {
    const Reg alpha = V::Broadcast(&epilogue.alpha);
    const Reg beta = V::Broadcast(&epilogue.beta);
    const bool whole = columns >= kColumns;
    Reg bias[2] = {V::Zero(), V::Zero()};
    if (epilogue.first && epilogue.bias != nullptr) {
      bias[0] = V::LoadFirst(epilogue.bias, columns);
      bias[1] = V::LoadFirst(epilogue.bias + kWidth, columns - kWidth);
    }
    const bool read = !epilogue.first || epilogue.beta != T(0);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      T* row = c + i * ldc;
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        T* at = row + j * kWidth;
        const int64_t left = columns - j * kWidth;
        Reg start = bias[j];
        if (read) {
          const Reg old = whole ? V::Load(at) : V::LoadFirst(at, left);
          start = epilogue.first ? V::Fma(beta, old, start) : old;
        }
        const Reg result = V::Fma(alpha, acc[i][j], start);
        if (whole) {
          V::Store(at, result);
        } else {
          V::StoreFirst(at, result, left);
        }
      }
    }
  }

  // Computes one panel times one strip. `columns` of the strip exist in C.
  template <int kRows, bool kTransA>
  static void Tile(const T* a, const T* b, int64_t kc, T* c, int64_t ldc, int64_t columns,
                   const Epilogue<T>& epilogue) {
    // C is prefetched, because it is needed only at the end and may be in no cache.
    const int64_t last = (columns < kColumns ? columns : kColumns) - 1;
#pragma GCC unroll 1
    for (int i = 0; i < kRows; ++i) {
      __builtin_prefetch(c + i * ldc, 1);
      __builtin_prefetch(c + i * ldc + last, 1);
    }
    Reg acc[kRows][2];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      acc[i][0] = V::Zero();
      acc[i][1] = V::Zero();
    }
    if constexpr (kTransA) {
      int64_t p = 0;
      for (; p + kUnroll <= kc; p += kUnroll) {
#pragma GCC unroll 4
        for (int u = 0; u < kUnroll; ++u) {
          Step<kRows, 1, kStrideA>(a + u * kStrideA, b + u * kColumns, acc);
        }
        a += kUnroll * kStrideA;
        b += kUnroll * kColumns;
      }
      for (; p < kc; ++p) {
        Step<kRows, 1, kStrideA>(a, b, acc);
        a += kStrideA;
        b += kColumns;
      }
    } else {
      const int64_t chunks = kc / kWidth;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        for (int p = 0; p < kWidth; p += kUnroll) {
#pragma GCC unroll 4
          for (int u = 0; u < kUnroll; ++u) {
            Step<kRows, kWidth, 1>(a + p + u, b + u * kColumns, acc);
          }
          b += kUnroll * kColumns;
        }
        a += kRows * kWidth;
      }
      for (int64_t p = 0; p < kc % kWidth; ++p) {
        Step<kRows, kWidth, 1>(a + p, b, acc);
        b += kColumns;
      }
    }
    AddInto<kRows>(c, ldc, columns, epilogue, acc);
  }

  using TileFunction = void (*)(const T*, const T*, int64_t, T*, int64_t, int64_t,
                                const Epilogue<T>&);
  template <bool kTransA, size_t... kIndex>
  static TileFunction TileFor(int64_t rows, std::index_sequence<kIndex...>) {
    static constexpr TileFunction kTiles[] = {Tile<static_cast<int>(kIndex) + 1, kTransA>...};
    return kTiles[rows - 1];
  }

  static void Multiply(bool trans_a, const T* packed_a, int64_t panel_size, const PanelSplit& split,
                       int64_t panel_begin, int64_t panel_end, const T* packed_b, int64_t columns,
                       int64_t strip_begin, int64_t strip_end, int64_t kc, T* c, int64_t ldc,
                       const Epilogue<T>& epilogue) {
    constexpr auto kRowCounts = std::make_index_sequence<kMaxRows>();
    for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
      const int64_t rows = split.Rows(panel);
      const TileFunction tile =
          trans_a ? TileFor<true>(rows, kRowCounts) : TileFor<false>(rows, kRowCounts);
      const T* a = packed_a + panel * panel_size;
      T* row = c + split.Begin(panel) * ldc;
      // While this panel is used, a part of the next panel is prefetched with each strip.
      const int64_t part = (panel_size / (strip_end - strip_begin) + 15) / 16 * 16;
      const T* next = a + panel_size;
      for (int64_t strip = strip_begin; strip < strip_end; ++strip) {
        if (panel + 1 < panel_end) PrefetchBytes(next, part * sizeof(T));
        next += part;
        const int64_t column = strip * kColumns;
        Epilogue<T> here = epilogue;
        if (here.bias != nullptr) here.bias += column;
        tile(a, packed_b + column * kc, kc, row + column, ldc, columns - column, here);
      }
    }
  }

  // Packing reads short runs of far-apart rows, which the processor's own prefetching misses.
  static constexpr int64_t kRowsAhead = 8;
  static inline __attribute__((always_inline)) void PrefetchBytes(const void* p, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) {
      __builtin_prefetch(static_cast<const char*>(p) + at);
    }
  }

  template <typename S>
  static void PackA(bool trans, const S* a, int64_t lda, const PanelSplit& split,
                    int64_t panel_begin, int64_t panel_end, int64_t kc, T* packed,
                    int64_t panel_size) {
    if (trans) {
      for (int64_t p = 0; p < kc; ++p) {
        for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
          const S* from = a + p * lda + split.Begin(panel);
          T* to = packed + panel * panel_size + p * kStrideA;
          const int64_t rows = split.Rows(panel);
          PrefetchBytes(from + kRowsAhead * lda, kMaxRows * sizeof(S));
          for (int i = 0; i < kStrideA; i += kWidth) {
            V::Store(to + i, V::LoadFirst(from + i, rows - i));
          }
        }
      }
      return;
    }
    for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
      const int64_t rows = split.Rows(panel);
      for (int64_t i = 0; i < rows; ++i) {
        const S* from = a + (split.Begin(panel) + i) * lda;
        T* to = packed + panel * panel_size + i * kWidth;
        int64_t p = 0;
        for (; p + kWidth <= kc; p += kWidth) {
          PrefetchBytes(from + 2 * lda + p, kWidth * sizeof(S));
          V::Store(to + p * rows, V::Load(from + p));
        }
        if (p < kc) V::Store(to + p * rows, V::LoadFirst(from + p, kc - p));
      }
    }
  }

  template <typename S>
  static void PackB(bool trans, const S* b, int64_t ldb, int64_t columns, int64_t strip_begin,
                    int64_t strip_end, int64_t kc, T* packed) {
    if (trans) {
      for (int64_t strip = strip_begin; strip < strip_end; ++strip) {
        PackTransposedStrip(b + strip * kColumns * ldb, ldb, columns - strip * kColumns, kc,
                            packed + strip * kColumns * kc);
      }
      return;
    }
    for (int64_t p = 0; p < kc; ++p) {
      for (int64_t strip = strip_begin; strip < strip_end; ++strip) {
        const S* from = b + p * ldb + strip * kColumns;
        T* to = packed + strip * kColumns * kc + p * kColumns;
        const int64_t left = columns - strip * kColumns;
        PrefetchBytes(from + kRowsAhead * ldb, kColumns * sizeof(S));
        if (left >= kColumns) {
          V::Store(to, V::Load(from));
          V::Store(to + kWidth, V::Load(from + kWidth));
        } else {
          V::Store(to, V::LoadFirst(from, left));
          V::Store(to + kWidth, V::LoadFirst(from + kWidth, left - kWidth));
        }
      }
    }
  }

  template <typename S>
  static void PackTransposedStrip(const S* b, int64_t ldb, int64_t columns, int64_t kc, T* packed) {
    for (int64_t p = 0; p < kc; p += kWidth) {
      const int64_t steps = kc - p < kWidth ? kc - p : kWidth;
      for (int64_t half = 0; half < kColumns; half += kWidth) {
        Reg rows[kWidth];
        const S* from = b + half * ldb + p;
        if (steps == kWidth && columns - half >= kWidth) {
#pragma GCC unroll 16
          for (int i = 0; i < kWidth; ++i) {
            __builtin_prefetch(from + i * ldb + 4 * kWidth);
            rows[i] = V::Load(from + i * ldb);
          }
        } else {
#pragma GCC unroll 16
          for (int i = 0; i < kWidth; ++i) {
            rows[i] = i < columns - half ? V::LoadFirst(from + i * ldb, steps) : V::Zero();
          }
        }
        TransposeRegisters<V>(rows);
        T* to = packed + p * kColumns + half;
        if (steps == kWidth) {
#pragma GCC unroll 16
          for (int i = 0; i < kWidth; ++i) V::Store(to + i * kColumns, rows[i]);
        } else {
#pragma GCC unroll 16
          for (int i = 0; i < kWidth; ++i) {
            if (i < steps) V::Store(to + i * kColumns, rows[i]);
          }
        }
      }
    }
  }

  static constexpr KernelSet<T> kSet = {kMaxRows, kColumns, kWidth, kStrideA, Multiply};
  template <typename S>
  static constexpr Packing<S> kPacking = {PackA<S>, PackB<S>};
};

}  // namespace
}  // namespace plimsoll::cpu::internal
