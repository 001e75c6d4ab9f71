// The building blocks of attention_loops_kernels_impl.h: 2^x, and products, transposes and
// converting copies of tiles. Included by exactly one file per instruction set, with internal
// linkage, for the reason given there.
//
// A vector type V provides: T, Reg, kWidth, kMaxRows (rows of accumulators, two registers each),
// Load, Store, Set, Add, Sub, Mul, Div, Fma(a, b, c) = a·b + c, Max(a, b) (b when either is NaN),
// Select(a, b, x, y): x in the lanes where a < b, y in the others, Exp2, Tanh, and From(x, first,
// fill): x in the lanes ≥ first, `fill` in the others. Load and Store of 16-bit types convert; only
// CopyTile uses them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "ops/cpu/register_transpose_impl.h"

namespace plimsoll::cpu::internal {
namespace {

// How a product changes C: C = AB, C = C + AB, C = C · scale[lane] + AB.
enum class Into { kStore, kAdd, kScale };

// The layout of A: (i,k) at a[i·stride + k] or at a[i + k·stride].
enum class Order { kRows, kColumns };

// 2^x for x ≤ 0, with eight-digit accuracy: 2^n · 2^f with n = round(x), and a polynomial for 2^f
// on |f| ≤ 1/2 with a relative error of 2e-9. Below −126 the result is 2^−126; NaN stays NaN.
template <typename V>
inline __attribute__((always_inline)) typename V::Reg Exp2Float(typename V::Reg x) {
  using Reg = typename V::Reg;
  // Adding 1.5 · 2^23 leaves the rounded integer in the low bits.
  const Reg magic = V::Set(12582912.0f);
  x = V::Max(V::Set(-126.0f), x);
  const Reg shifted = V::Add(x, magic);
  const Reg f = V::Sub(x, V::Sub(shifted, magic));
  Reg p = V::Fma(V::Set(1.5353362e-4f), f, V::Set(1.3398875e-3f));
  p = V::Fma(p, f, V::Set(9.6184369e-3f));
  p = V::Fma(p, f, V::Set(5.5503324e-2f));
  p = V::Fma(p, f, V::Set(2.4022648e-1f));
  p = V::Fma(p, f, V::Set(6.9314718e-1f));
  p = V::Fma(p, f, V::Set(1.0f));
  return V::AddToExponent(p, shifted);
}

// tanh(x) as in ops/simd.h: for |x| < 0.6 a polynomial, as the quotient loses the digits of a small
// x; otherwise (1 − e) / (1 + e) with e = 2^(−2·|x|·log₂e) and the sign of x. NaN stays NaN.
template <typename V>
inline __attribute__((always_inline)) typename V::Reg TanhFloat(typename V::Reg x) {
  using Reg = typename V::Reg;
  const Reg zero = V::Set(0.0f), one = V::Set(1.0f);
  const Reg size = V::Max(x, V::Sub(zero, x));
  const Reg z = V::Mul(x, x);
  Reg p = V::Fma(z, V::Set(-0.00626911968f), V::Set(0.0211109594f));
  p = V::Fma(p, z, V::Set(-0.0538739488f));
  p = V::Fma(p, z, V::Set(0.133329153f));
  p = V::Fma(p, z, V::Set(-0.333333313f));
  const Reg near = V::Fma(x, V::Mul(p, z), x);
  const Reg e = V::Exp2(V::Mul(size, V::Set(-2.88539008f)));
  const Reg far = V::Div(V::Sub(one, e), V::Add(one, e));
  return V::Select(size, V::Set(0.6f), near, V::Select(x, zero, V::Sub(zero, far), far));
}

// Applies a scalar function to each lane. Used for double, which only tests use.
template <typename V>
inline typename V::Reg EachLane(typename V::Reg x, double (*function)(double)) {
  double lanes[V::kWidth];
  V::Store(lanes, x);
  for (double& lane : lanes) lane = function(lane);
  return V::Load(lanes);
}
template <typename V>
inline typename V::Reg Exp2Lanes(typename V::Reg x) {
  return EachLane<V>(x, [](double lane) { return std::exp2(lane); });
}
template <typename V>
inline typename V::Reg TanhLanes(typename V::Reg x) {
  return EachLane<V>(x, [](double lane) { return std::tanh(lane); });
}

template <typename V>
struct AttentionTiles {
  using T = typename V::T;
  using Reg = typename V::Reg;
  static constexpr int kWidth = V::kWidth;
  static constexpr int kLanes = 2 * kWidth;
  static constexpr int kMaxRows = V::kMaxRows;

  // Computes one block of accumulators over all of k.
  template <int kRows, Order kOrder, Into kInto>
  static void Block(int64_t k, const T* a, int64_t stride, const T* b, int64_t ldb, T* c,
                    int64_t ldc, const T* scale) {
    // One pointer serves three rows, so that all pointers stay in registers.
    constexpr int kPointers = (kRows + 2) / 3;
    const T* rows[kPointers];
#pragma GCC unroll 8
    for (int i = 0; i < kPointers; ++i) rows[i] = a + 3 * i * stride;
    Reg acc[kRows][2];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      acc[i][0] = V::Set(0);
      acc[i][1] = V::Set(0);
    }
#pragma GCC unroll 4
    for (int64_t p = 0; p < k; ++p) {
      const Reg b0 = V::Load(b);
      const Reg b1 = V::Load(b + kWidth);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const Reg value = V::Set(kOrder == Order::kRows ? rows[i / 3][(i % 3) * stride + p] : a[i]);
        acc[i][0] = V::Fma(value, b0, acc[i][0]);
        acc[i][1] = V::Fma(value, b1, acc[i][1]);
      }
      if (kOrder == Order::kColumns) a += stride;
      b += ldb;
    }
    Reg scale0 = {}, scale1 = {};
    if (kInto == Into::kScale) {
      scale0 = V::Load(scale);
      scale1 = V::Load(scale + kWidth);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      T* const row = c + i * ldc;
      if (kInto == Into::kAdd) {
        acc[i][0] = V::Add(V::Load(row), acc[i][0]);
        acc[i][1] = V::Add(V::Load(row + kWidth), acc[i][1]);
      } else if (kInto == Into::kScale) {
        acc[i][0] = V::Fma(V::Load(row), scale0, acc[i][0]);
        acc[i][1] = V::Fma(V::Load(row + kWidth), scale1, acc[i][1]);
      }
      V::Store(row, acc[i][0]);
      V::Store(row + kWidth, acc[i][1]);
    }
  }

  using BlockFunction = void (*)(int64_t, const T*, int64_t, const T*, int64_t, T*, int64_t,
                                 const T*);
  template <Order kOrder, Into kInto, size_t... kIndex>
  static BlockFunction BlockFor(int64_t rows, std::index_sequence<kIndex...>) {
    static constexpr BlockFunction kBlocks[] = {
        Block<static_cast<int>(kIndex) + 1, kOrder, kInto>...};
    return kBlocks[rows - 1];
  }

  // Computes C[m][kLanes] from A(m,k) and B[k][kLanes]. The rows are split evenly.
  template <Order kOrder, Into kInto>
  static void Product(int64_t m, int64_t k, const T* a, int64_t stride, const T* b, int64_t ldb,
                      T* c, int64_t ldc, const T* scale = nullptr) {
    int64_t blocks = (m + kMaxRows - 1) / kMaxRows;
    while (m > 0) {
      const int64_t rows = (m + blocks - 1) / blocks;
      BlockFor<kOrder, kInto>(rows, std::make_index_sequence<kMaxRows>())(k, a, stride, b, ldb, c,
                                                                          ldc, scale);
      a += kOrder == Order::kRows ? rows * stride : rows;
      c += rows * ldc;
      m -= rows;
      --blocks;
    }
  }

  // to[j·ldt + i] = from[i·ldf + j] · factor[i or j], for i < m, j < n.
  template <typename Factor>
  static void Transpose(int64_t m, int64_t n, const T* from, int64_t ldf, T* to, int64_t ldt,
                        Factor factor) {
    const int64_t whole_m = m / kWidth * kWidth;
    const int64_t whole_n = n / kWidth * kWidth;
    for (int64_t i = 0; i < whole_m; i += kWidth) {
      for (int64_t j = 0; j < whole_n; j += kWidth) {
        Reg block[kWidth];
#pragma GCC unroll 16
        for (int r = 0; r < kWidth; ++r) {
          block[r] = V::Mul(V::Load(from + (i + r) * ldf + j), factor.Vector(j));
        }
        TransposeRegisters<V>(block);
#pragma GCC unroll 16
        for (int r = 0; r < kWidth; ++r) V::Store(to + (j + r) * ldt + i, block[r]);
      }
    }
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = i < whole_m ? whole_n : 0; j < n; ++j) {
        to[j * ldt + i] = from[i * ldf + j] * factor.Scalar(j);
      }
    }
  }
  struct OneFactor {
    Reg Vector(int64_t) const { return V::Set(value); }
    T Scalar(int64_t) const { return value; }
    T value;
  };
  struct FactorPerColumn {
    Reg Vector(int64_t j) const { return V::Load(values + j); }
    T Scalar(int64_t j) const { return values[j]; }
    const T* values;
  };

  static void Fill(T* to, int64_t n, T value) {
    int64_t i = 0;
    for (; i + kWidth <= n; i += kWidth) V::Store(to + i, V::Set(value));
    for (; i < n; ++i) to[i] = value;
  }

  // Loads fewer than kWidth values; the others are zero.
  template <typename S>
  static Reg LoadFew(const S* from, int64_t count) {
    S values[kWidth] = {};
    std::memcpy(values, from, count * sizeof(S));
    return V::Load(values);
  }
  template <typename S>
  static void StoreFew(S* to, Reg x, int64_t count) {
    S values[kWidth];
    V::Store(values, x);
    std::memcpy(to, values, count * sizeof(S));
  }

  // Copies rows × columns, times a factor; fills each row with zeros from `columns` to `padded`.
  // From or To may have 16 bits.
  template <typename From, typename To>
  static void CopyTile(int64_t rows, int64_t columns, const From* from, int64_t ldf, To* to,
                       int64_t ldt, int64_t padded, T factor) {
    const Reg f = V::Set(factor);
    for (int64_t i = 0; i < rows; ++i) {
      const From* const source = from + i * ldf;
      To* const target = to + i * ldt;
      int64_t j = 0;
      for (; j + kWidth <= columns; j += kWidth) {
        V::Store(target + j, V::Mul(V::Load(source + j), f));
      }
      if (j < columns) {
        StoreFew(target + j, V::Mul(LoadFew(source + j, columns - j), f), columns - j);
        j = columns;
      }
      if (j < padded) std::memset(target + j, 0, (padded - j) * sizeof(To));
    }
  }

  // Sixteen sums, each of every 16th product, are added pairwise: the result is the same for every
  // register width.
  static T Dot(int64_t n, const T* a, const T* b) {
    constexpr int kSums = 16;
    T sums[kSums] = {};
    int64_t i = 0;
    for (; i + kSums <= n; i += kSums) {
      for (int j = 0; j < kSums; j += kWidth) {
        V::Store(sums + j, V::Fma(V::Load(a + i + j), V::Load(b + i + j), V::Load(sums + j)));
      }
    }
    for (int j = 0; i < n; ++i, ++j) sums[j] = std::fma(a[i], b[i], sums[j]);
    for (int half = kSums / 2; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
    }
    return sums[0];
  }
};

}  // namespace
}  // namespace plimsoll::cpu::internal
