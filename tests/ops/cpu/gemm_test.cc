// GEMM compared with a plain product in double, and bit for bit with itself: any number of threads,
// serial, either instruction set, any address in memory. 16-bit matrices bit for bit with float.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/low_precision.h"
#include "ops/cpu/packed_gemm.h"

namespace plimsoll::cpu {
namespace {

// 64-byte aligned bytes with a guard on both sides.
class Guarded {
 public:
  explicit Guarded(int64_t bytes) : bytes_(bytes), storage_(bytes + 3 * kGuard, kCanary) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data()) + kGuard;
    offset_ = static_cast<int64_t>((address + 63) / 64 * 64 - address) + kGuard;
  }
  void* data() { return storage_.data() + offset_; }
  int64_t bytes() const { return bytes_; }
  void ExpectIntact() const {
    for (int64_t i = 0; i < static_cast<int64_t>(storage_.size()); ++i) {
      if (i == offset_) i += bytes_;
      ASSERT_EQ(storage_[i], kCanary) << "byte " << i - offset_ << " of " << bytes_;
    }
  }

 private:
  static constexpr int64_t kGuard = 256;
  static constexpr unsigned char kCanary = 0xc5;
  int64_t bytes_;
  std::vector<unsigned char> storage_;
  int64_t offset_ = 0;
};

template <typename T>
struct Numbers {
  static constexpr double kEpsilon = std::numeric_limits<T>::epsilon();
  static constexpr double kSmallest = std::numeric_limits<T>::min();
};
template <>
struct Numbers<BFloat16> {
  static constexpr double kEpsilon = 0x1p-7;
  static constexpr double kSmallest = 0x1p-126;
};
template <>
struct Numbers<Float16> {
  static constexpr double kEpsilon = 0x1p-10;
  static constexpr double kSmallest = 0x1p-14;
};

double Value(float x) { return x; }
double Value(double x) { return x; }
double Value(BFloat16 x) { return ToFloat(x); }
double Value(Float16 x) { return ToFloat(x); }

void Set(float& x, double value) { x = static_cast<float>(value); }
void Set(double& x, double value) { x = value; }
void Set(BFloat16& x, double value) { x.bits = ToBf16(static_cast<float>(value)); }
void Set(Float16& x, double value) { x.bits = ToF16(static_cast<float>(value)); }

template <typename To, typename From>
std::vector<To> Converted(const std::vector<From>& values) {
  std::vector<To> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) Set(result[i], Value(values[i]));
  return result;
}

template <typename T>
bool SameBits(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() &&
         (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0);
}

// A product with its operands. C lies in a larger buffer whose other values must not change.
template <typename A, typename B = A, typename C = A>
struct Case {
  using T = typename GemmArgs<A, B, C>::Compute;
  GemmArgs<A, B, C> args;
  std::vector<A> a;
  std::vector<B> b;
  std::vector<C> c, bias;

  Case(int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b, T alpha, T beta, bool with_bias,
       int64_t padding, std::mt19937& random) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    const auto fill = [&](auto& values, int64_t count) {
      values.resize(count);
      for (auto& value : values) Set(value, uniform(random));
    };
    args = {trans_a, trans_b, m, n, k, alpha};
    args.beta = beta;
    args.lda = (trans_a ? m : k) + padding;
    args.ldb = (trans_b ? k : n) + padding;
    args.ldc = n + padding;
    // Exactly as long as needed, so that a sanitizer detects a read beyond the last row.
    const auto extent = [](int64_t rows, int64_t columns, int64_t stride) {
      return rows == 0 ? 0 : (rows - 1) * stride + columns;
    };
    fill(a, extent(trans_a ? k : m, trans_a ? m : k, args.lda));
    fill(b, extent(trans_b ? n : k, trans_b ? k : n, args.ldb));
    fill(c, m * args.ldc);
    fill(bias, with_bias ? n : 0);
    if (beta == 0) {
      // beta = 0 must not read C.
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) Set(c[i * args.ldc + j], NAN);
      }
    }
  }

  std::string Name() const {
    return std::to_string(args.m) + "x" + std::to_string(args.n) + "x" + std::to_string(args.k) +
           (args.trans_a ? " A'" : "") + (args.trans_b ? " B'" : "") + " alpha " +
           std::to_string(args.alpha) + " beta " + std::to_string(args.beta) +
           (bias.empty() ? "" : " bias") + " ldc " + std::to_string(args.ldc);
  }

  // C after the product; `threads` 0 for GemmSerial.
  std::vector<C> Run(int threads, int64_t shift = 0) const {
    GemmArgs<A, B, C> run = args;
    std::vector<A> moved_a(shift);
    std::vector<B> moved_b(shift);
    std::vector<C> result(shift);
    moved_a.insert(moved_a.end(), a.begin(), a.end());
    moved_b.insert(moved_b.end(), b.begin(), b.end());
    result.insert(result.end(), c.begin(), c.end());
    run.a = moved_a.data() + shift;
    run.b = moved_b.data() + shift;
    run.c = result.data() + shift;
    run.bias = bias.empty() ? nullptr : bias.data();
    Guarded workspace(GemmWorkspaceBytes<C>(run.m, run.n, run.k));
    if (threads == 0) {
      GemmSerial(run, workspace.data(), workspace.bytes());
    } else {
      ThreadPool pool(threads);
      Gemm(pool, run, workspace.data(), workspace.bytes());
    }
    workspace.ExpectIntact();
    result.erase(result.begin(), result.begin() + shift);
    return result;
  }

  // The same operands as floats, exactly.
  Case<float> Widened() const {
    std::mt19937 unused;
    Case<float> wide(0, 0, 0, args.trans_a, args.trans_b, args.alpha, args.beta, false, 0, unused);
    wide.args.m = args.m;
    wide.args.n = args.n;
    wide.args.k = args.k;
    wide.args.lda = args.lda;
    wide.args.ldb = args.ldb;
    wide.args.ldc = args.ldc;
    wide.a = Converted<float>(a);
    wide.b = Converted<float>(b);
    wide.c = Converted<float>(c);
    wide.bias = Converted<float>(bias);
    return wide;
  }

  void ExpectClose(const std::vector<C>& result) const {
    const int64_t lda = args.lda, ldb = args.ldb, ldc = args.ldc;
    for (int64_t i = 0; i < args.m; ++i) {
      for (int64_t j = 0; j < ldc; ++j) {
        const int64_t at = i * ldc + j;
        if (j >= args.n) {
          ASSERT_EQ(Value(result[at]), Value(c[at])) << "outside C at " << i << "," << j;
          continue;
        }
        double sum = 0, magnitude = 0;
        for (int64_t p = 0; p < args.k; ++p) {
          const double product = Value(args.trans_a ? a[p * lda + i] : a[i * lda + p]) *
                                 Value(args.trans_b ? b[j * ldb + p] : b[p * ldb + j]);
          sum += product;
          magnitude += std::abs(product);
        }
        double expected = args.alpha * sum;
        magnitude *= std::abs(args.alpha);
        if (args.beta != 0) {
          expected += args.beta * Value(c[at]);
          magnitude += std::abs(args.beta * Value(c[at]));
        }
        if (!bias.empty()) {
          expected += Value(bias[j]);
          magnitude += std::abs(Value(bias[j]));
        }
        // Higham, "Accuracy and Stability of Numerical Algorithms", 3.5: any term is rounded at
        // most (k + 3) times. The reference itself is rounded at double precision. A 16-bit result
        // is rounded once more, by half a unit in its last place.
        double bound = (args.k + 3) * Numbers<T>::kEpsilon * magnitude + Numbers<T>::kSmallest;
        if (!std::is_same_v<C, T>) {
          bound += 0.5 * Numbers<C>::kEpsilon * std::max(std::abs(expected), Numbers<C>::kSmallest);
        }
        ASSERT_NEAR(Value(result[at]), expected, bound) << "at " << i << "," << j;
      }
    }
  }
};

std::vector<GemmKernel> Kernels() {
  std::vector<GemmKernel> kernels = {GemmKernel::kAvx2};
  if (GemmKernelSupported(GemmKernel::kAvx512)) kernels.push_back(GemmKernel::kAvx512);
  return kernels;
}

// The types of A, B and C.
template <typename A, typename B, typename C>
struct Stored {
  using Product = Case<A, B, C>;
  using Args = GemmArgs<A, B, C>;
  using Compute = typename Args::Compute;
  using Result = C;
  static constexpr bool kSixteenBits = sizeof(A) == 2 || sizeof(B) == 2;
};

template <typename Types>
class GemmTest : public ::testing::Test {
 protected:
  using Product = typename Types::Product;
  using Result = typename Types::Result;

  void TearDown() override { SetGemmKernel(original_); }
  const GemmKernel original_ = ActiveGemmKernel();
  std::mt19937 random_{7};

  void Check(const Product& test) {
    SCOPED_TRACE(test.Name());
    std::vector<Result> first;
    for (const GemmKernel kernel : Kernels()) {
      SCOPED_TRACE(kernel == GemmKernel::kAvx2 ? "AVX2" : "AVX-512");
      SetGemmKernel(kernel);
      const std::vector<Result> serial = test.Run(0);
      if (first.empty()) {
        test.ExpectClose(serial);
        first = serial;
      }
      EXPECT_TRUE(SameBits(serial, first)) << "kernels differ";
      for (const int threads : {1, 2, 3, 5}) {
        EXPECT_TRUE(SameBits(test.Run(threads, threads), first)) << threads << " threads";
      }
    }
  }
};

using Types =
    ::testing::Types<Stored<float, float, float>, Stored<double, double, double>,
                     Stored<BFloat16, BFloat16, BFloat16>, Stored<BFloat16, BFloat16, float>,
                     Stored<BFloat16, float, float>, Stored<float, BFloat16, float>,
                     Stored<Float16, Float16, Float16>, Stored<Float16, Float16, float>,
                     Stored<Float16, float, float>, Stored<float, Float16, float>>;
TYPED_TEST_SUITE(GemmTest, Types);

TYPED_TEST(GemmTest, SmallShapesEveryForm) {
  using Product = typename TypeParam::Product;
  using T = typename TypeParam::Compute;
  for (const int64_t m : {1, 2, 13, 17}) {
    for (const int64_t n : {1, 5, 33}) {
      for (const int64_t k : {1, 16, 21}) {
        for (const int form : {0, 1, 2, 3}) {
          const T beta = form == 1 ? T(0) : T(-0.5);
          this->Check(
              Product(m, n, k, form & 1, form & 2, T(1.5), beta, m % 2 == 0, form, this->random_));
          if (this->HasFatalFailure() || this->HasFailure()) return;
        }
      }
    }
  }
}

TYPED_TEST(GemmTest, RandomShapes) {
  using Product = typename TypeParam::Product;
  using T = typename TypeParam::Compute;
  std::uniform_int_distribution<int64_t> size(1, 150);
  std::uniform_int_distribution<int> choice(0, 2);
  for (int round = 0; round < 24; ++round) {
    const int64_t m = size(this->random_), n = size(this->random_), k = size(this->random_);
    const T alphas[] = {T(1), T(-1), T(0.3)};
    const T betas[] = {T(0), T(1), T(0.7)};
    const T alpha = alphas[choice(this->random_)], beta = betas[choice(this->random_)];
    this->Check(Product(m, n, k, round & 1, round & 2, alpha, beta, round & 4,
                        choice(this->random_) * 7, this->random_));
    if (this->HasFailure()) return;
  }
}

// Past every block size: several blocks of k, of rows and of columns.
TYPED_TEST(GemmTest, SeveralBlocks) {
  using Product = typename TypeParam::Product;
  using T = typename TypeParam::Compute;
  const int64_t shapes[][3] = {{3, 40, 1000}, {1600, 3, 20}, {2, 3400, 9}, {90, 270, 400}};
  for (const auto& shape : shapes) {
    for (const int form : {0, 1, 2, 3}) {
      this->Check(Product(shape[0], shape[1], shape[2], form & 1, form & 2, T(0.5),
                          form == 3 ? T(0) : T(2), form != 1, 0, this->random_));
      if (this->HasFailure()) return;
    }
  }
}

TYPED_TEST(GemmTest, EmptyProducts) {
  using Product = typename TypeParam::Product;
  using T = typename TypeParam::Compute;
  for (const T beta : {T(0), T(2)}) {
    for (const bool with_bias : {false, true}) {
      Product test(3, 4, 0, false, false, T(1), beta, with_bias, 2, this->random_);
      test.ExpectClose(test.Run(0));
      test.ExpectClose(test.Run(2));
    }
  }
  for (const auto& shape : {std::pair<int64_t, int64_t>(0, 5), std::pair<int64_t, int64_t>(5, 0)}) {
    Product test(shape.first, shape.second, 3, false, false, T(1), T(1), false, 2, this->random_);
    EXPECT_TRUE(SameBits(test.Run(0), test.c));
    EXPECT_TRUE(SameBits(test.Run(2), test.c));
  }
}

TYPED_TEST(GemmTest, NonFiniteValuesArrive) {
  using Product = typename TypeParam::Product;
  using T = typename TypeParam::Compute;
  for (const GemmKernel kernel : Kernels()) {
    SetGemmKernel(kernel);
    Product test(20, 40, 30, false, true, T(1), T(0), false, 0, this->random_);
    Set(test.a[7 * test.args.lda + 29], INFINITY);
    Set(test.b[11 * test.args.ldb + 3], NAN);
    const std::vector<typename TypeParam::Result> result = test.Run(2);
    for (int64_t i = 0; i < 20; ++i) {
      for (int64_t j = 0; j < 40; ++j) {
        const double value = Value(result[i * 40 + j]);
        if (j == 11) {
          EXPECT_TRUE(std::isnan(value));
        } else {
          EXPECT_EQ(std::isinf(value), i == 7) << i << "," << j;
        }
      }
    }
  }
}

TYPED_TEST(GemmTest, RefusesWhatItCannotDo) {
  using Product = typename TypeParam::Product;
  using T = typename TypeParam::Compute;
  Product test(8, 8, 8, false, false, T(1), T(0), false, 0, this->random_);
  test.args.a = test.a.data();
  test.args.b = test.b.data();
  test.args.c = test.c.data();
  Guarded workspace(GemmWorkspaceBytes<typename TypeParam::Result>(8, 8, 8));
  EXPECT_THROW(GemmSerial(test.args, workspace.data(), workspace.bytes() - 1), InternalError);
  EXPECT_THROW(GemmSerial(test.args, static_cast<char*>(workspace.data()) + 8, 1 << 30),
               InternalError);
  const auto refuses = [&](auto change) {
    typename TypeParam::Args args = test.args;
    change(args);
    EXPECT_THROW(GemmSerial(args, workspace.data(), workspace.bytes()), InternalError);
  };
  refuses([](typename TypeParam::Args& args) { args.lda = 7; });
  refuses([](typename TypeParam::Args& args) { args.ldb = 7; });
  refuses([](typename TypeParam::Args& args) { args.ldc = 7; });
  refuses([](typename TypeParam::Args& args) { args.m = -1; });
  workspace.ExpectIntact();
}

// A 16-bit result is the float32 product of the widened operands, rounded once: no precision is
// lost between blocks of k, rows or columns, nor in bias and old C.
TYPED_TEST(GemmTest, SixteenBitsAreFloatsRoundedOnce) {
  using Product = typename TypeParam::Product;
  if constexpr (TypeParam::kSixteenBits) {
    for (const auto& shape :
         {std::array<int64_t, 3>{20, 40, 1300}, {1530, 5, 390}, {3, 1600, 800}}) {
      for (const int form : {0, 1, 2, 3}) {
        const Product test(shape[0], shape[1], shape[2], form & 1, form & 2, 0.75f,
                           form == 1 ? 0.f : -1.5f, form != 2, form, this->random_);
        const std::vector<float> wide = test.Widened().Run(2);
        EXPECT_TRUE(SameBits(test.Run(2), Converted<typename TypeParam::Result>(wide)))
            << test.Name();
      }
    }
  }
}

// Terms that a bf16 sum would lose: 1024 in the first block of k, 1 in each of the eight later
// blocks, which only matter together. Rounded after each block, the result would stay 1024.
TEST(GemmBf16, BlocksOfKAddNoRounding) {
  std::mt19937 random(1);
  Case<BFloat16> test(2, 3, 9 * 384, false, true, 1, 0, false, 0, random);
  for (BFloat16& value : test.a) Set(value, 0);
  for (BFloat16& value : test.b) Set(value, 1);
  for (int64_t i = 0; i < 2; ++i) {
    Set(test.a[i * test.args.lda], 1024);
    for (int64_t block = 1; block < 9; ++block) Set(test.a[i * test.args.lda + block * 384], 1);
  }
  for (const BFloat16 value : test.Run(2)) EXPECT_EQ(ToFloat(value), 1032);
}

// To nearest, ties to even; beyond the range to infinity; subnormals are kept.
TEST(GemmFloat16, RoundsAsTheTypeDoes) {
  std::mt19937 random(1);
  Case<Float16> test(1, 6, 1, false, false, 1, 0, true, 0, random);
  const float products[] = {1 + 0x1p-10f, 1 + 0x1p-10f, 65504, 65504, 0x1p-24f, -0x1p-24f};
  const float biases[] = {0x1p-11f, -0x1p-11f, 15, 16, 0, 0};
  const float rounded[] = {1 + 0x1p-9f, 1, 65504, INFINITY, 0x1p-24f, -0x1p-24f};
  Set(test.a[0], 1);
  for (int64_t j = 0; j < 6; ++j) {
    Set(test.b[j], products[j]);
    Set(test.bias[j], biases[j]);
  }
  const std::vector<Float16> result = test.Run(0);
  for (int64_t j = 0; j < 6; ++j) EXPECT_EQ(ToFloat(result[j]), rounded[j]) << j;
}

TEST(GemmWorkspace, IsBoundedAndCoversSmallerShapes) {
  constexpr int64_t kLarge = int64_t{1} << 20;
  EXPECT_LE(GemmWorkspaceBytes<float>(kLarge, kLarge, kLarge), 8 << 20);
  EXPECT_LE(GemmWorkspaceBytes<BFloat16>(kLarge, kLarge, kLarge), 16 << 20);
  EXPECT_LT(GemmWorkspaceBytes<float>(64, 64, 64), 64 << 10);
  EXPECT_LT(GemmWorkspaceBytes<Float16>(64, 64, 64), 96 << 10);
  EXPECT_GE(GemmWorkspaceBytes<float>(0, 64, 64), 0);
}

}  // namespace
}  // namespace plimsoll::cpu
