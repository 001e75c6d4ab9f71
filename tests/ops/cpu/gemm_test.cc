// GEMM against a plain product in double, and bit for bit against itself: any number of threads,
// serial, either instruction set, any place in memory.
#include "ops/cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

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

// A product with its operands. C lies in a larger buffer whose other values must survive.
template <typename T>
struct Case {
  GemmArgs<T> args;
  std::vector<T> a, b, c, bias;

  Case(int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b, T alpha, T beta, bool with_bias,
       int64_t padding, std::mt19937& random) {
    std::uniform_real_distribution<T> uniform(-1, 1);
    const auto fill = [&](std::vector<T>& values, int64_t count) {
      values.resize(count);
      for (T& value : values) value = uniform(random);
    };
    args = {trans_a, trans_b, m, n, k, alpha};
    args.beta = beta;
    args.lda = (trans_a ? m : k) + padding;
    args.ldb = (trans_b ? k : n) + padding;
    args.ldc = n + padding;
    // Exactly as long as needed, so that a sanitizer sees a read behind the last row.
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
        for (int64_t j = 0; j < n; ++j) c[i * args.ldc + j] = NAN;
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
  std::vector<T> Run(int threads, int64_t shift = 0) const {
    GemmArgs<T> run = args;
    std::vector<T> moved_a(shift, T(0)), moved_b(shift, T(0)), result(shift, T(0));
    moved_a.insert(moved_a.end(), a.begin(), a.end());
    moved_b.insert(moved_b.end(), b.begin(), b.end());
    result.insert(result.end(), c.begin(), c.end());
    run.a = moved_a.data() + shift;
    run.b = moved_b.data() + shift;
    run.c = result.data() + shift;
    run.bias = bias.empty() ? nullptr : bias.data();
    Guarded workspace(GemmWorkspaceBytes(run.m, run.n, run.k, sizeof(T), std::max(threads, 1)));
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

  void ExpectClose(const std::vector<T>& result) const {
    const int64_t lda = args.lda, ldb = args.ldb, ldc = args.ldc;
    for (int64_t i = 0; i < args.m; ++i) {
      for (int64_t j = 0; j < ldc; ++j) {
        const int64_t at = i * ldc + j;
        if (j >= args.n) {
          ASSERT_EQ(result[at], c[at]) << "outside C at " << i << "," << j;
          continue;
        }
        double sum = 0, magnitude = 0;
        for (int64_t p = 0; p < args.k; ++p) {
          const double product =
              static_cast<double>(args.trans_a ? a[p * lda + i] : a[i * lda + p]) *
              (args.trans_b ? b[j * ldb + p] : b[p * ldb + j]);
          sum += product;
          magnitude += std::abs(product);
        }
        double expected = args.alpha * sum;
        magnitude *= std::abs(args.alpha);
        if (args.beta != 0) {
          expected += static_cast<double>(args.beta) * c[at];
          magnitude += std::abs(static_cast<double>(args.beta) * c[at]);
        }
        if (!bias.empty()) {
          expected += bias[j];
          magnitude += std::abs(static_cast<double>(bias[j]));
        }
        // Higham, "Accuracy and Stability of Numerical Algorithms", 3.5: at most (k + 3) roundings
        // on the way of any term. The reference itself is rounded at double precision.
        const double bound = (args.k + 3) * std::numeric_limits<T>::epsilon() * magnitude +
                             std::numeric_limits<T>::min();
        ASSERT_NEAR(result[at], expected, bound) << "at " << i << "," << j;
      }
    }
  }
};

template <typename T>
bool SameBits(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() &&
         (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0);
}

std::vector<GemmKernel> Kernels() {
  std::vector<GemmKernel> kernels = {GemmKernel::kAvx2};
  if (GemmKernelSupported(GemmKernel::kAvx512)) kernels.push_back(GemmKernel::kAvx512);
  return kernels;
}

template <typename T>
class GemmTest : public ::testing::Test {
 protected:
  void TearDown() override { SetGemmKernel(original_); }
  const GemmKernel original_ = ActiveGemmKernel();
  std::mt19937 random_{7};

  void Check(const Case<T>& test) {
    SCOPED_TRACE(test.Name());
    std::vector<T> first;
    for (const GemmKernel kernel : Kernels()) {
      SCOPED_TRACE(kernel == GemmKernel::kAvx2 ? "AVX2" : "AVX-512");
      SetGemmKernel(kernel);
      const std::vector<T> serial = test.Run(0);
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

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(GemmTest, Types);

TYPED_TEST(GemmTest, SmallShapesEveryForm) {
  using T = TypeParam;
  for (const int64_t m : {1, 2, 13, 17}) {
    for (const int64_t n : {1, 5, 33}) {
      for (const int64_t k : {1, 16, 21}) {
        for (const int form : {0, 1, 2, 3}) {
          const T beta = form == 1 ? T(0) : T(-0.5);
          this->Check(
              Case<T>(m, n, k, form & 1, form & 2, T(1.5), beta, m % 2 == 0, form, this->random_));
          if (this->HasFatalFailure() || this->HasFailure()) return;
        }
      }
    }
  }
}

TYPED_TEST(GemmTest, RandomShapes) {
  using T = TypeParam;
  std::uniform_int_distribution<int64_t> size(1, 150);
  std::uniform_int_distribution<int> choice(0, 2);
  for (int round = 0; round < 24; ++round) {
    const int64_t m = size(this->random_), n = size(this->random_), k = size(this->random_);
    const T alphas[] = {T(1), T(-1), T(0.3)};
    const T betas[] = {T(0), T(1), T(0.7)};
    const T alpha = alphas[choice(this->random_)], beta = betas[choice(this->random_)];
    this->Check(Case<T>(m, n, k, round & 1, round & 2, alpha, beta, round & 4,
                        choice(this->random_) * 7, this->random_));
    if (this->HasFailure()) return;
  }
}

// Past every block size: several blocks of k, of rows and of columns.
TYPED_TEST(GemmTest, SeveralBlocks) {
  using T = TypeParam;
  const int64_t shapes[][3] = {{3, 40, 1000}, {1600, 3, 20}, {2, 3400, 9}, {90, 270, 400}};
  for (const auto& shape : shapes) {
    for (const int form : {0, 1, 2, 3}) {
      this->Check(Case<T>(shape[0], shape[1], shape[2], form & 1, form & 2, T(0.5),
                          form == 3 ? T(0) : T(2), form != 1, 0, this->random_));
      if (this->HasFailure()) return;
    }
  }
}

TYPED_TEST(GemmTest, EmptyProducts) {
  using T = TypeParam;
  for (const T beta : {T(0), T(2)}) {
    for (const bool with_bias : {false, true}) {
      Case<T> test(3, 4, 0, false, false, T(1), beta, with_bias, 2, this->random_);
      test.ExpectClose(test.Run(0));
      test.ExpectClose(test.Run(2));
    }
  }
  for (const auto& shape : {std::pair<int64_t, int64_t>(0, 5), std::pair<int64_t, int64_t>(5, 0)}) {
    Case<T> test(shape.first, shape.second, 3, false, false, T(1), T(1), false, 2, this->random_);
    EXPECT_TRUE(SameBits(test.Run(0), test.c));
    EXPECT_TRUE(SameBits(test.Run(2), test.c));
  }
}

TYPED_TEST(GemmTest, NonFiniteValuesArrive) {
  using T = TypeParam;
  for (const GemmKernel kernel : Kernels()) {
    SetGemmKernel(kernel);
    Case<T> test(20, 40, 30, false, true, T(1), T(0), false, 0, this->random_);
    test.a[7 * test.args.lda + 29] = INFINITY;
    test.b[11 * test.args.ldb + 3] = NAN;
    const std::vector<T> result = test.Run(2);
    for (int64_t i = 0; i < 20; ++i) {
      for (int64_t j = 0; j < 40; ++j) {
        const T value = result[i * 40 + j];
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
  using T = TypeParam;
  Case<T> test(8, 8, 8, false, false, T(1), T(0), false, 0, this->random_);
  test.args.a = test.a.data();
  test.args.b = test.b.data();
  test.args.c = test.c.data();
  Guarded workspace(GemmWorkspaceBytes(8, 8, 8, sizeof(T), 1));
  EXPECT_THROW(GemmSerial(test.args, workspace.data(), workspace.bytes() - 1), InternalError);
  EXPECT_THROW(GemmSerial(test.args, static_cast<char*>(workspace.data()) + 8, 1 << 30),
               InternalError);
  const auto refuses = [&](auto change) {
    GemmArgs<T> args = test.args;
    change(args);
    EXPECT_THROW(GemmSerial(args, workspace.data(), workspace.bytes()), InternalError);
  };
  refuses([](GemmArgs<T>& args) { args.lda = 7; });
  refuses([](GemmArgs<T>& args) { args.ldb = 7; });
  refuses([](GemmArgs<T>& args) { args.ldc = 7; });
  refuses([](GemmArgs<T>& args) { args.m = -1; });
  workspace.ExpectIntact();
}

TEST(GemmWorkspace, IsBoundedAndCoversSmallerShapes) {
  const int64_t most = GemmWorkspaceBytes(1 << 20, 1 << 20, 1 << 20, sizeof(float), 8);
  EXPECT_LE(most, 10 << 20);
  EXPECT_LT(GemmWorkspaceBytes(64, 64, 64, sizeof(float), 1), 64 << 10);
  EXPECT_GE(GemmWorkspaceBytes(0, 64, 64, sizeof(float), 1), 0);
  EXPECT_THROW(GemmWorkspaceBytes(8, 8, 8, 2, 1), InternalError);
}

}  // namespace
}  // namespace plimsoll::cpu
