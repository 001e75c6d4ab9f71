// Products of 8-bit codes on a GPU compared with sums in double of the codes' products, all of
// which are exact; cuBLASLt's and our own kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/cuda/choices/choice_options.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda/products/gemm_call.h"
#include "ops/cuda/products/gemm_forms.h"
#include "ops/cuda/products/low_gradient.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

constexpr DType kE4M3 = DType::kFloat8E4M3, kE5M2 = DType::kFloat8E5M2;

struct CodeProduct {
  int64_t m, n, k;
  DType x = kE4M3, weight = kE4M3, result = DType::kBFloat16;
  bool fast = false, bias = false, acc = false;
  bool integers = false;  // small ones, whose sums every kernel gives exactly

  std::string Text() const {
    return fmt::format("{}x{}x{} {} {} to {}{}{}{}{}", m, n, k, graph::Name(x), graph::Name(weight),
                       graph::Name(result), fast ? " fast" : "", bias ? " bias" : "",
                       acc ? " acc" : "", integers ? " integers" : "");
  }
};

// Matrix units align products and their sum to the largest of them and keep 13 bits after its
// first. A bound of the error, relative to the sum of the products' magnitudes: a few such bits
// where sums are added up in float32 every 128 products, several more where they never are.
double BoundOf(const CodeProduct& of) { return of.fast ? 0x1p-9 : 0x1p-11; }

double RoundingTo(DType dtype) {
  return dtype == DType::kBFloat16 ? 0x1p-8 : dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-23;
}

// Integers that are 8-bit codes.
TestTensor SmallIntegers(DType dtype, const graph::Shape& shape, int seed) {
  const TestTensor numbers = NormalValues(DType::kFloat32, shape, seed);
  TestTensor integers({dtype, shape});
  for (int64_t i = 0; i < integers.size(); ++i) {
    integers.set(i, std::clamp(std::round(numbers.at(i)), -2.0, 2.0));
  }
  return integers;
}

// The operands of a product, and what it must give.
class CodeOperands {
 public:
  explicit CodeOperands(const CodeProduct& of) : of_(of) {
    const auto quantize = [](int64_t rows, int64_t columns, DType dtype, int seed) {
      const TestTensor numbers = NormalValues(DType::kBFloat16, {rows, columns}, seed);
      const TestTensor largest = RunOp("largest_magnitude", {&numbers})[0];
      return RunOp("quantize", {&numbers, &largest, nullptr},
                   {{"dtype", std::string(graph::Name(dtype))}});
    };
    const std::vector<TestTensor> a = quantize(of.m, of.k, of.x, 1);
    const std::vector<TestTensor> b = quantize(of.n, of.k, of.weight, 2);
    x = a[1];
    x_scale = a[2];
    weight = b[1];
    weight_scale = b[2];
    bias = NormalValues(of.result, {of.n}, 3);
    acc = NormalValues(of.result, {of.m, of.n}, 4);
    if (of.integers) {
      x = SmallIntegers(of.x, {of.m, of.k}, 1);
      weight = SmallIntegers(of.weight, {of.n, of.k}, 2);
      x_scale.set(0, 0.5);
      weight_scale.set(0, 0.25);
      for (TestTensor* added : {&bias, &acc}) {
        for (int64_t i = 0; i < added->size(); ++i) added->set(i, std::round(added->at(i) * 8) / 8);
      }
    }
    // About 500 elements, among them the last one.
    const auto step = [](int64_t count) { return std::max<int64_t>(1, count / 20); };
    for (int64_t i = (of.m - 1) % step(of.m); i < of.m; i += step(of.m)) {
      for (int64_t j = (of.n - 1) % step(of.n); j < of.n; j += step(of.n)) AddSample(i, j);
    }
  }

  Attributes attributes() const {
    return {{"dtype", std::string(graph::Name(of_.result))}, {"fast", of_.fast}};
  }
  std::vector<const TestTensor*> inputs() const {
    return {
        &x, &weight, &x_scale, &weight_scale, of_.bias ? &bias : nullptr, of_.acc ? &acc : nullptr};
  }

  void ExpectExact(const TestTensor& y) const {
    for (const Sample& sample : samples_) {
      ASSERT_NEAR(y.at(sample.at), sample.sum, sample.tolerance)
          << "row " << sample.at / of_.n << " column " << sample.at % of_.n;
    }
  }

  TestTensor x, weight, x_scale, weight_scale, bias, acc;

 private:
  struct Sample {
    int64_t at;
    double sum, tolerance;
  };

  void AddSample(int64_t i, int64_t j) {
    const double scale = x_scale.at(0) * weight_scale.at(0);
    double sum = 0, size = 0;
    for (int64_t p = 0; p < of_.k; ++p) {
      const double product = scale * x.at(i * of_.k + p) * weight.at(j * of_.k + p);
      sum += product;
      size += std::fabs(product);
    }
    if (of_.bias) sum += bias.at(j);
    if (of_.acc) sum += acc.at(i * of_.n + j);
    if (of_.integers) {  // rounded once, and nothing else
      samples_.push_back({i * of_.n + j, Values(of_.result, {}, {sum}).at(0), 0});
      return;
    }
    const double error = BoundOf(of_) * size + 1e-6, rounding = RoundingTo(of_.result);
    double tolerance = error + rounding * (std::fabs(sum) + error);
    // cuBLASLt rounds the product before it adds what has 16 bits.
    if (of_.acc) tolerance += rounding * (std::fabs(sum - acc.at(i * of_.n + j)) + error);
    samples_.push_back({i * of_.n + j, sum, tolerance});
  }

  CodeProduct of_;
  std::vector<Sample> samples_;
};

std::vector<CodeProduct> CodeProducts() {
  constexpr DType bf16 = DType::kBFloat16, f16 = DType::kFloat16, f32 = DType::kFloat32;
  std::vector<CodeProduct> products;
  for (const bool fast : {false, true}) {
    for (const auto& [x, weight] : {std::pair{kE4M3, kE4M3}, {kE5M2, kE4M3}, {kE4M3, kE5M2}}) {
      for (const DType result : {bf16, f16, f32}) {
        products.push_back({13, 48, 1600, x, weight, result, fast});
        products.push_back({129, 1600, 208, x, weight, result, fast});
        products.push_back({37, 176, 64, x, weight, result, fast, false, true});
        if (result == f32) continue;
        products.push_back({33, 1600, 96, x, weight, result, fast, true});
        products.push_back({33, 144, 96, x, weight, result, fast, true, true});
      }
    }
    products.push_back({1, 1600, 16, kE4M3, kE4M3, bf16, fast});
    products.push_back({1, 16, 16, kE4M3, kE4M3, f32, fast});
    products.push_back({1000, 512, 1600, kE4M3, kE4M3, bf16, fast, true});
    products.push_back({3, 16, 32768, kE5M2, kE4M3, f32, fast});
    products.push_back({48, 80, 32768, kE5M2, kE4M3, f32, fast, false, true});
  }
  return products;
}

void MeasureChoicesOfCodes(bool measure) {
  SetChoices({.measure = measure, .folder = "", .warn = {}});
}

TEST(CudaScaledLinear, EqualsSumsOfCodes) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (const bool measure : {false, true}) {
    MeasureChoicesOfCodes(measure);
    for (const CodeProduct& of : CodeProducts()) {
      SCOPED_TRACE(of.Text());
      const CodeOperands operands(of);
      operands.ExpectExact(
          RunCudaOp("scaled_linear", operands.inputs(), libraries, operands.attributes())[0]);
      if (HasFatalFailure()) return;
    }
  }
  MeasureChoicesOfCodes(false);
}

// A product with everything on the GPU.
class CodeCall {
 public:
  explicit CodeCall(const CodeProduct& of)
      : operands(of),
        x_(operands.x),
        weight_(operands.weight),
        x_scale_(operands.x_scale),
        weight_scale_(operands.weight_scale),
        bias_(operands.bias),
        acc_(operands.acc),
        d_({of.result, {of.m, of.n}}),
        workspace_(CudaMemory(kGemmWorkspaceBytes)) {
    problem.trans_b = true;
    problem.m = of.m;
    problem.n = problem.ldc = of.n;
    problem.k = problem.lda = problem.ldb = of.k;
    problem.type_a = of.x;
    problem.type_b = of.weight;
    problem.result = of.result;
    problem.fast_accumulation = of.fast;
    problem.beta = of.acc ? 1 : 0;
    if (of.bias) problem.epilogue = GemmEpilogue::kBias;
    buffers.a = x_.data();
    buffers.b = weight_.data();
    buffers.scale_a = static_cast<const float*>(x_scale_.data());
    buffers.scale_b = static_cast<const float*>(weight_scale_.data());
    if (of.bias) buffers.bias = bias_.data();
    if (of.acc) buffers.c = acc_.data();
    buffers.d = d_.data();
    buffers.workspace = workspace_.get();
    buffers.workspace_bytes = kGemmWorkspaceBytes;
  }

  // What `compute` leaves in D.
  template <typename Compute>
  TestTensor Result(const Compute& compute) const {
    gpu::Check(cudaMemset(d_.data(), 0xFF, static_cast<size_t>(d_.type().bytes())), "cudaMemset");
    compute();
    gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return d_.Download();
  }

  const CodeOperands operands;
  GemmProblem problem;
  GemmBuffers buffers;

 private:
  CudaTensor x_, weight_, x_scale_, weight_scale_, bias_, acc_, d_;
  std::shared_ptr<void> workspace_;
};

TEST(CudaScaledLinear, EqualsSumsOfCodesByOurOwnKernel) {
  PLIMSOLL_NEEDS_CUDA
  for (const CodeProduct& of : CodeProducts()) {
    if (of.fast) continue;
    SCOPED_TRACE(of.Text());
    const CodeCall call(of);
    call.operands.ExpectExact(call.Result([&] { PlainGemm(nullptr, call.problem, call.buffers); }));
    if (HasFatalFailure()) return;
  }
}

// Any transposition, which cuBLASLt doesn't have.
TEST(CudaScaledLinear, TransposesByOurOwnKernel) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const CodeProduct of{48, 64, 32, kE5M2, kE4M3, DType::kFloat32};
  CodeCall call(of);
  call.problem.trans_a = true;  // x is [k, m], weight is [k, n]
  call.problem.trans_b = false;
  call.problem.m = call.problem.lda = 32;
  call.problem.k = 48;
  call.problem.n = call.problem.ldb = call.problem.ldc = 32;
  const TestTensor y = call.Result([&] { Gemm(libraries, nullptr, call.problem, call.buffers); });
  const CodeOperands& o = call.operands;
  for (int64_t i = 0; i < 32; ++i) {
    for (int64_t j = 0; j < 32; ++j) {
      double sum = 0, size = 0;
      for (int64_t p = 0; p < 48; ++p) {
        const double product = o.x.at(p * 32 + i) * o.weight.at(p * 32 + j);
        sum += product;
        size += std::fabs(product);
      }
      const double scale = o.x_scale.at(0) * o.weight_scale.at(0);
      ASSERT_NEAR(y.at(i * 32 + j), scale * sum, BoundOf(of) * scale * size);
    }
  }
}

// Every algorithm that may be chosen, and variations of it (gemm_choice.cc), is right, rounds once,
// and gives the same bits in two runs.
TEST(CudaScaledLinear, EveryCandidateIsRight) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  cublasLtHandle_t handle = libraries.cublas_lt();
  if (libraries.properties().major * 10 + libraries.properties().minor < 89) {
    GTEST_SKIP() << "no matrix units for 8-bit codes";
  }
  CodeProduct plain{517, 640, 1600, kE5M2, kE4M3}, bias = plain, added = plain, both = plain;
  bias.x = both.x = kE4M3;
  bias.bias = both.bias = true;
  both.acc = added.acc = true;
  added.result = DType::kFloat32;
  for (CodeProduct of : {plain, bias, added, both}) {
    for (const auto& [fast, integers] :
         {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
      of.fast = fast;
      of.integers = integers;
      SCOPED_TRACE(of.Text());
      const CodeCall product(of);
      const GemmCall call(product.problem, product.buffers);
      std::vector<cublasLtMatmulAlgo_t> algorithms = call.Candidates(handle, 16);
      ASSERT_FALSE(algorithms.empty());
      const std::vector<cublasLtMatmulAlgo_t> named = algorithms;
      for (const cublasLtMatmulAlgo_t& algorithm : named) {
        auto variation = GemmCall::VariationOf(algorithm);
        if (!variation) continue;
        for (variation->order = 0; variation->order < 8; ++variation->order) {
          for (const uint32_t cluster : {CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1,
                                         CUBLASLT_CLUSTER_SHAPE_1x2x1}) {
            variation->cluster = cluster;
            if (const auto varied = call.Varied(handle, algorithm, *variation)) {
              algorithms.push_back(*varied);
            }
          }
        }
      }
      for (size_t i = 0; i < algorithms.size(); ++i) {
        SCOPED_TRACE(
            fmt::format("algorithm {} of {}, {} named", i, algorithms.size(), named.size()));
        const auto run = [&] { call.Run(handle, nullptr, algorithms[i]); };
        const TestTensor got = product.Result(run);
        ASSERT_TRUE(SameBits(product.Result(run), got)) << "a second run has other bits";
        product.operands.ExpectExact(got);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Measured choices are kept by words that say all that matters; those of other types have not
// changed.
TEST(CudaScaledLinear, KeysOfChoicesTellProductsApart) {
  PLIMSOLL_NEEDS_CUDA
  CodeCall call({32, 48, 64, kE5M2, kE4M3});
  const auto key = [&] { return GemmCall(call.problem, call.buffers).key(); };
  EXPECT_EQ(key(),
            "e5m2*e4m3-bf16-nt-32x48x64-ld64,64,48-none-write-align16,16,16,16,16,16"
            "-scales-tensor,tensor-workspace33554432");
  call.problem.fast_accumulation = true;
  EXPECT_TRUE(key().starts_with("e5m2*e4m3(fast)-bf16-")) << key();
  call.problem.fast_accumulation = false;
  call.buffers.scale_a = call.buffers.scale_b = nullptr;
  call.problem.type_a = call.problem.type_b = DType::kBFloat16;
  EXPECT_EQ(key(),
            "bf16-bf16-nt-32x48x64-ld64,64,48-none-write-align16,16,16,16,16,16"
            "-workspace33554432");
}

TEST(CudaScaledLinear, RefusesScalesOff16Bytes) {
  PLIMSOLL_NEEDS_CUDA
  CodeCall call({32, 48, 64});
  ++call.buffers.scale_a;
  EXPECT_THROW(GemmCall(call.problem, call.buffers), InternalError);
}

TEST(CudaScaledLinear, ScalesThatAreNaNMakeNaN) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (const DType result : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    for (const bool of_x : {true, false}) {
      CodeProduct of{33, 48, 64, kE5M2, kE4M3, result};
      of.acc = of_x;
      CodeOperands operands(of);
      (of_x ? operands.x_scale : operands.weight_scale)
          .set(0, std::numeric_limits<double>::quiet_NaN());
      const TestTensor y =
          RunCudaOp("scaled_linear", operands.inputs(), libraries, operands.attributes())[0];
      for (int64_t i = 0; i < y.size(); ++i) ASSERT_TRUE(std::isnan(y.at(i))) << i;
    }
  }
}

// Small integers, which are codes, and whose sums any kernel gives exactly: so the GPU's gradients
// in bf16, also those that are added in slices, differ from the CPU's in no bit.
TEST(CudaScaledLinear, AddsLowGradientsAsTheCpu) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const TestTensor scale = Values(DType::kFloat32, {}, {0.5});
  const TestTensor rng = Values(DType::kInt32, {2}, {12, 34});
  constexpr int64_t kColumns = 4096, kInner = 64;
  ASSERT_LT(LowGradientRows(2320, kColumns), 2320);
  for (const int64_t rows : {int64_t{80}, int64_t{2320}}) {
    for (const bool added : {true, false}) {
      SCOPED_TRACE(fmt::format("{} rows, added {}", rows, added));
      const TestTensor x = SmallIntegers(kE5M2, {rows, kInner}, 1);
      const TestTensor weight = SmallIntegers(kE4M3, {kColumns, kInner}, 2);
      const TestTensor acc = NormalValues(DType::kBFloat16, {rows, kColumns}, 3, 1e3);
      const std::vector<const TestTensor*> inputs = {
          &x, &weight, &scale, &scale, nullptr, added ? &acc : nullptr, &rng};
      const Attributes attributes = {
          {"dtype", std::string("bf16")}, {"key", int64_t{5}}, {"low_gradient", true}};
      const TestTensor cpu = RunOp("scaled_linear", inputs, attributes)[0];
      const TestTensor cuda = RunCudaOp("scaled_linear", inputs, libraries, attributes)[0];
      int64_t differ = 0;
      for (int64_t i = 0; i < cpu.size(); ++i) differ += cpu.at(i) != cuda.at(i);
      EXPECT_EQ(differ, 0) << "of " << cpu.size();
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
