// The GPU's matrix product compared with sums in double: types, transposes, strides, odd shapes and
// addresses, epilogues; cuBLASLt's and our own kernel. And column sums.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "ops/cuda/choices/choice_options.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda/products/gemm_choice.h"
#include "ops/cuda/products/gemm_forms.h"
#include "ops/cuda/products/gemm_problem.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

struct GemmCase {
  std::string label;
  int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  DType operands = DType::kBFloat16, result = DType::kBFloat16;
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  float beta = 0;
  bool in_place = false;  // C is D
  int64_t pad = 0;        // of each row
  int64_t offset = 0;     // elements before each matrix
  int64_t batch = 1;
  bool tf32 = false;
  float alpha = 1;
};

double Rounding(DType dtype) {
  return dtype == DType::kBFloat16 ? 0x1p-8 : dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-22;
}

double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double GeluGradient(double x) {
  constexpr double kStep = 1e-5;
  return (Gelu(x + kStep) - Gelu(x - kStep)) / (2 * kStep);
}

// The operands of a case, and the expected results.
class Operands {
 public:
  explicit Operands(const GemmCase& c) : c_(c) {
    problem.trans_a = c.trans_a;
    problem.trans_b = c.trans_b;
    problem.m = c.m;
    problem.n = c.n;
    problem.k = c.k;
    const int64_t rows_a = c.trans_a ? c.k : c.m, rows_b = c.trans_b ? c.n : c.k;
    problem.lda = (c.trans_a ? c.m : c.k) + c.pad;
    problem.ldb = (c.trans_b ? c.k : c.n) + c.pad;
    problem.ldc = c.n + c.pad;
    problem.batch = c.batch;
    problem.stride_a = rows_a * problem.lda;
    problem.stride_b = rows_b * problem.ldb;
    problem.stride_c = c.m * problem.ldc;
    problem.type_a = problem.type_b = c.operands;
    problem.result = c.result;
    problem.tf32 = c.tf32;
    problem.epilogue = c.epilogue;
    problem.alpha = c.alpha;
    problem.beta = c.beta;
    a = NormalValues(c.operands, {c.offset + c.batch * problem.stride_a + 1}, 1);
    b = NormalValues(c.operands, {c.offset + c.batch * problem.stride_b + 1}, 2);
    old = NormalValues(c.result, {c.offset + c.batch * problem.stride_c + 1}, 3);
    pre = NormalValues(c.result, {c.offset + c.batch * problem.stride_c + 1}, 4);
    bias = NormalValues(c.result, {c.n}, 5);
  }

  double A(int64_t batch, int64_t i, int64_t k) const {
    return a.at(c_.offset + batch * problem.stride_a +
                (c_.trans_a ? k * problem.lda + i : i * problem.lda + k));
  }
  double B(int64_t batch, int64_t k, int64_t j) const {
    return b.at(c_.offset + batch * problem.stride_b +
                (c_.trans_b ? j * problem.ldb + k : k * problem.ldb + j));
  }

  const GemmCase& c_;
  GemmProblem problem;
  TestTensor a, b, old, pre, bias;
};

using Product = void (*)(gpu::Libraries&, const GemmProblem&, const GemmBuffers&);

// `prepare` is called before the memory around the results is remembered.
void Check(const GemmCase& c, Product product, Product prepare = nullptr) {
  SCOPED_TRACE(c.label);
  gpu::Libraries libraries;
  const Operands operands(c);
  const GemmProblem& p = operands.problem;
  const CudaTensor a(operands.a), b(operands.b), old(operands.old), aux(operands.pre);
  const CudaTensor bias(operands.bias), sums({DType::kFloat32, {c.m}});
  const CudaTensor fresh({c.result, operands.old.type().shape});
  const CudaTensor& d = c.in_place ? old : fresh;
  const auto workspace = CudaMemory(kGemmWorkspaceBytes);
  const auto at = [&](const CudaTensor& tensor, DType dtype) {
    return static_cast<char*>(tensor.data()) + c.offset * graph::ByteSize(dtype);
  };
  GemmBuffers buffers;
  buffers.a = at(a, c.operands);
  buffers.b = at(b, c.operands);
  buffers.c = c.beta == 0 ? nullptr : at(old, c.result);
  buffers.d = at(d, c.result);
  const GemmEpilogue e = c.epilogue;
  if (e == GemmEpilogue::kBias) buffers.bias = bias.data();
  if (e == GemmEpilogue::kGeluGradient) buffers.aux = at(aux, c.result);
  if (e == GemmEpilogue::kSums) buffers.sums = static_cast<float*>(sums.data());
  buffers.workspace = workspace.get();
  buffers.workspace_bytes = kGemmWorkspaceBytes;
  if (prepare != nullptr) prepare(libraries, p, buffers);
  const TestTensor before = d.Download();
  product(libraries, p, buffers);
  gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const TestTensor got = d.Download(), got_sums = sums.Download();

  for (int64_t batch = 0; batch < c.batch; ++batch) {
    for (int64_t i = 0; i < c.m; ++i) {
      double row_sum = 0, row_size = 0;
      for (int64_t k = 0; k < c.k; ++k) {
        row_sum += operands.A(batch, i, k);
        row_size += std::fabs(operands.A(batch, i, k));
      }
      if (e == GemmEpilogue::kSums) {
        ASSERT_NEAR(got_sums.at(i), row_sum, 1e-5 * row_size + 1e-6) << "sum of row " << i;
      }
      for (int64_t j = 0; j < c.n; ++j) {
        double value = 0, size = 0;
        for (int64_t k = 0; k < c.k; ++k) {
          const double term = operands.A(batch, i, k) * operands.B(batch, k, j);
          value += term;
          size += std::fabs(term);
        }
        const int64_t place = c.offset + batch * p.stride_c + i * p.ldc + j;
        double error = (c.tf32 ? 1e-3 : 1e-6) * size;
        value *= c.alpha;
        if (c.beta != 0) value += c.beta * operands.old.at(place);
        if (buffers.bias != nullptr) value += operands.bias.at(j);
        if (e == GemmEpilogue::kGeluGradient) {
          error = 2 * error + 4e-3 * std::fabs(value);
          value *= GeluGradient(operands.pre.at(place));
        }
        ASSERT_NEAR(got.at(place), value, error + Rounding(c.result) * std::fabs(value) + 1e-6)
            << "batch " << batch << " row " << i << " column " << j;
      }
      // The gaps between the rows are not written.
      for (int64_t j = c.n; j < p.ldc; ++j) {
        const int64_t place = c.offset + batch * p.stride_c + i * p.ldc + j;
        const double was = before.at(place), is = got.at(place);
        ASSERT_TRUE(was == is || (std::isnan(was) && std::isnan(is))) << "gap of row " << i;
      }
    }
  }
}

std::vector<GemmCase> Cases() {
  constexpr DType f32 = DType::kFloat32, bf16 = DType::kBFloat16, f16 = DType::kFloat16;
  std::vector<GemmCase> cases;
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      const std::string t = std::string(trans_a ? "aT" : "a") + (trans_b ? " bT" : " b");
      cases.push_back({t + " bf16", 72, 136, 64, trans_a, trans_b});
      cases.push_back({t + " f16", 64, 64, 200, trans_a, trans_b, f16, f16});
      cases.push_back({t + " f32", 72, 40, 96, trans_a, trans_b, f32, f32});
      cases.push_back({t + " bf16 to f32", 48, 64, 300, trans_a, trans_b, bf16, f32});
      cases.push_back({t + " odd", 37, 51, 29, trans_a, trans_b});
      cases.push_back({t + " odd f32", 37, 51, 29, trans_a, trans_b, f32, f32});
      GemmCase c{t + " odd, off alignment, padded", 33, 21, 17, trans_a, trans_b};
      c.offset = 1;
      c.pad = 3;
      cases.push_back(c);
    }
  }
  for (const DType type : {bf16, f16, f32}) {
    const std::string name = " " + std::string(graph::Name(type));
    cases.push_back({"bias" + name, 64, 128, 72, false, true, type, type, GemmEpilogue::kBias});
    cases.push_back({"bias, odd" + name, 5, 51, 7, false, true, type, type, GemmEpilogue::kBias});
    cases.push_back({"one row" + name, 1, 256, 64, false, true, type, type, GemmEpilogue::kBias});
    cases.push_back({"gelu gradient" + name, 64, 128, 72, false, false, type, type,
                     GemmEpilogue::kGeluGradient});
    cases.push_back({"gelu gradient, odd" + name, 9, 51, 7, false, false, type, type,
                     GemmEpilogue::kGeluGradient});
    cases.push_back({"sums" + name, 64, 72, 512, true, false, type, f32, GemmEpilogue::kSums});
    cases.push_back({"sums, odd" + name, 37, 51, 129, true, false, type, f32, GemmEpilogue::kSums});
    GemmCase add{"adding" + name, 96, 64, 2048, true, false, type, f32};
    add.beta = 1;
    cases.push_back(add);
    add.label += ", in place";
    add.in_place = true;
    cases.push_back(add);
    GemmCase dx{"adding, same type" + name, 40, 64, 72, false, false, type, type};
    dx.beta = 0.5;
    dx.alpha = 2;
    cases.push_back(dx);
    GemmCase batch{"batch" + name, 20, 24, 16, true, true, type, type};
    batch.batch = 7;
    cases.push_back(batch);
    batch = {"batch, odd" + name, 5, 3, 7, false, false, type, type};
    batch.batch = 11;
    cases.push_back(batch);
    GemmCase empty{"k = 0" + name, 9, 24, 0, true, false, type, f32};
    cases.push_back(empty);
    empty.label += ", adding";
    empty.beta = 1;
    cases.push_back(empty);
  }
  GemmCase tf32{"tf32", 64, 128, 256, false, true, f32, f32};
  tf32.tf32 = true;
  cases.push_back(tf32);
  return cases;
}

// Without a file: algorithms are measured, or not.
void Choose(bool measure) { SetChoices({.measure = measure, .folder = "", .warn = {}}); }

TEST(CudaGemm, EqualsSumsInDouble) {
  PLIMSOLL_NEEDS_CUDA
  Choose(false);
  for (const GemmCase& c : Cases()) {
    Check(c, [](gpu::Libraries& libraries, const GemmProblem& problem, const GemmBuffers& buffers) {
      Gemm(libraries, nullptr, problem, buffers);
    });
    if (HasFatalFailure()) return;
  }
}

TEST(CudaGemm, EqualsSumsInDoubleByOurOwnKernel) {
  PLIMSOLL_NEEDS_CUDA
  for (const GemmCase& c : Cases()) {
    Check(c, [](gpu::Libraries&, const GemmProblem& problem, const GemmBuffers& buffers) {
      PlainGemm(nullptr, problem, buffers);
    });
    if (HasFatalFailure()) return;
  }
}

TEST(CudaGemm, EqualsSumsInDoubleByMeasuredAlgorithms) {
  PLIMSOLL_NEEDS_CUDA
  Choose(true);
  for (const GemmCase& c : Cases()) {
    if (c.in_place) continue;  // measuring adds to the existing values
    Check(
        c,
        [](gpu::Libraries& libraries, const GemmProblem& problem, const GemmBuffers& buffers) {
          Gemm(libraries, nullptr, problem, buffers);
        },
        [](gpu::Libraries& libraries, const GemmProblem& problem, const GemmBuffers& buffers) {
          PrepareGemm(libraries, nullptr, problem, buffers);
        });
    if (HasFatalFailure()) return;
  }
}

// With C = D, measuring leaves its own sums in C, so the operands are zeros.
TEST(CudaGemm, AddsInPlaceAfterMeasuring) {
  PLIMSOLL_NEEDS_CUDA
  Choose(true);
  for (GemmCase c : Cases()) {
    if (!c.in_place) continue;
    Check(c, [](gpu::Libraries& libraries, const GemmProblem& problem, const GemmBuffers& buffers) {
      const size_t bytes = static_cast<size_t>(problem.m * problem.ldc) * sizeof(float);
      const auto kept = CudaMemory(static_cast<int64_t>(bytes));
      gpu::Check(cudaMemcpy(kept.get(), buffers.d, bytes, cudaMemcpyDefault), "cudaMemcpy");
      PrepareGemm(libraries, nullptr, problem, buffers);
      gpu::Check(cudaMemcpy(buffers.d, kept.get(), bytes, cudaMemcpyDefault), "cudaMemcpy");
      Gemm(libraries, nullptr, problem, buffers);
    });
    if (HasFatalFailure()) return;
  }
}

// Some algorithms and their variations.
std::vector<cublasLtMatmulAlgo_t> WithVariations(cublasLtHandle_t handle, const GemmCall& call) {
  std::vector<cublasLtMatmulAlgo_t> all = call.Candidates(handle, 32);
  const size_t named = all.size();
  for (size_t i = 0; i < named; ++i) {
    const auto usual = GemmCall::VariationOf(all[i]);
    if (!usual) continue;
    for (uint32_t order = 0; order < 8; ++order) {
      const auto cluster = static_cast<uint32_t>(order % 2 == 0 ? CUBLASLT_CLUSTER_SHAPE_2x1x1
                                                                : CUBLASLT_CLUSTER_SHAPE_1x2x1);
      for (uint32_t shape : {usual->cluster, cluster}) {
        if (const auto varied = call.Varied(handle, all[i], {usual->tile, shape, order})) {
          all.push_back(*varied);
        }
      }
    }
  }
  return all;
}

// Compares each algorithm that may be chosen with our own kernel, at sizes of several tiles, and
// checks that two runs give the same bits.
TEST(CudaGemm, EveryCandidateIsRight) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (const GemmEpilogue epilogue :
       {GemmEpilogue::kNone, GemmEpilogue::kBias, GemmEpilogue::kGeluGradient}) {
    const GemmCase c{"", 520, 648, 768, false, true, DType::kBFloat16, DType::kBFloat16, epilogue};
    const Operands operands(c);
    const CudaTensor a(operands.a), b(operands.b), bias(operands.bias), aux(operands.pre);
    const CudaTensor d({c.result, {c.m * c.n}}), want({c.result, {c.m * c.n}});
    const auto workspace = CudaMemory(kGemmWorkspaceBytes);
    GemmBuffers buffers{.a = a.data(), .b = b.data(), .d = want.data()};
    if (epilogue == GemmEpilogue::kBias) buffers.bias = bias.data();
    if (epilogue == GemmEpilogue::kGeluGradient) buffers.aux = aux.data();
    buffers.workspace = workspace.get();
    buffers.workspace_bytes = kGemmWorkspaceBytes;
    PlainGemm(nullptr, operands.problem, buffers);
    const TestTensor expected = want.Download();
    buffers.d = d.data();
    const GemmCall call(operands.problem, buffers);
    const auto candidates = WithVariations(libraries.cublas_lt(), call);
    ASSERT_GT(candidates.size(), 1u);
    for (size_t i = 0; i < candidates.size(); ++i) {
      SCOPED_TRACE("epilogue " + std::to_string(static_cast<int>(epilogue)) + " candidate " +
                   std::to_string(i));
      gpu::Check(cudaMemset(d.data(), 0xFF, d.type().bytes()), "cudaMemset");
      call.Run(libraries.cublas_lt(), nullptr, candidates[i]);
      const TestTensor got = d.Download();
      call.Run(libraries.cublas_lt(), nullptr, candidates[i]);
      const TestTensor again = d.Download();
      ASSERT_EQ(std::memcmp(again.data(), got.data(), d.type().bytes()), 0) << "other bits";
      for (int64_t j = 0; j < c.m * c.n; ++j) {
        // Sums in another order may round to a neighbour; the library uses the fast tanh.
        ASSERT_NEAR(got.at(j), expected.at(j), 0x1p-7 * std::fabs(expected.at(j)) + 0.02) << j;
      }
    }
  }
}

// Sums have the same bits wherever C lies.
TEST(CudaGemm, CandidatesAddInPlaceAsElsewhere) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const auto workspace = CudaMemory(kGemmWorkspaceBytes);
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    GemmCase c{"", 520, 648, 768, false, false, type, type};
    c.beta = 1;
    const Operands operands(c);
    const CudaTensor a(operands.a), b(operands.b), old(operands.old), d(operands.old);
    GemmBuffers buffers{.a = a.data(), .b = b.data(), .c = d.data(), .d = d.data()};
    buffers.workspace = workspace.get();
    buffers.workspace_bytes = kGemmWorkspaceBytes;
    const GemmCall in_place(operands.problem, buffers);
    buffers.c = old.data();
    const GemmCall elsewhere(operands.problem, buffers);
    const auto candidates = WithVariations(libraries.cublas_lt(), in_place);
    ASSERT_GT(candidates.size(), 1u);
    for (size_t i = 0; i < candidates.size(); ++i) {
      elsewhere.Run(libraries.cublas_lt(), nullptr, candidates[i]);
      const TestTensor got = d.Download();
      gpu::Check(cudaMemcpy(d.data(), old.data(), d.type().bytes(), cudaMemcpyDefault),
                 "cudaMemcpy");
      in_place.Run(libraries.cublas_lt(), nullptr, candidates[i]);
      const TestTensor expected = d.Download();
      ASSERT_EQ(std::memcmp(got.data(), expected.data(), d.type().bytes()), 0) << i;
    }
  }
}

// No algorithm that may be chosen rounds a product before the bias is added, whether rows of D
// begin where the last ones end or at multiples of 8 elements.
TEST(CudaGemm, EveryCandidateRoundsOnce) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const auto workspace = CudaMemory(kGemmWorkspaceBytes);
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    for (const auto& [m, n, k, pad, ldc, parts] : {std::tuple{5, 51, 7, 0, 51, 2},
                                                   {18, 37, 11, 0, 37, 2},
                                                   {33, 21, 129, 0, 21, 2},
                                                   {128, 10, 768, 0, 10, 2},
                                                   {128, 10, 768, 0, 16, 3},
                                                   {16, 24, 8, 0, 24, 1},
                                                   {33, 21, 64, 0, 24, 3},
                                                   {33, 5, 64, 0, 8, 2},
                                                   {64, 64, 101, 0, 64, 2},
                                                   {64, 64, 101, 3, 64, 2},
                                                   {64, 128, 2048, 0, 128, 1},
                                                   {520, 648, 768, 0, 648, 1},
                                                   {64, 1001, 768, 0, 1001, 2},
                                                   {64, 1001, 768, 0, 1008, 3},
                                                   {256, 1018, 256, 0, 1024, 3},
                                                   {8, 30522, 256, 0, 30528, 3}}) {
      SCOPED_TRACE(fmt::format("{} x {} x {}, {} apart, {}", m, n, k, ldc, graph::Name(type)));
      GemmCase c{"", m, n, k, false, true, type, type, GemmEpilogue::kBias};
      c.pad = pad;
      const Operands operands(c);
      std::vector<double> exact(static_cast<size_t>(m * n)), error(exact.size());
      for (int64_t i = 0; i < m * n; ++i) {
        double sum = operands.bias.at(i % n), size = 1;
        for (int64_t j = 0; j < k; ++j) {
          const double term = operands.A(0, i / n, j) * operands.B(0, j, i % n);
          sum += term;
          size += std::fabs(term);
        }
        exact[static_cast<size_t>(i)] = sum;
        error[static_cast<size_t>(i)] = 1e-6 * size + Rounding(type) * std::fabs(sum);
      }
      const CudaTensor a(operands.a), b(operands.b), bias(operands.bias), d({type, {m * ldc}});
      GemmProblem problem = operands.problem;
      problem.ldc = ldc;
      const GemmBuffers buffers{.a = a.data(),
                                .b = b.data(),
                                .d = d.data(),
                                .bias = bias.data(),
                                .workspace = workspace.get(),
                                .workspace_bytes = kGemmWorkspaceBytes};
      const std::vector<GemmPart> all = RoundedOnce(problem, buffers);
      ASSERT_EQ(all.size(), static_cast<size_t>(parts));
      int64_t columns = 0;
      for (const GemmPart& part : all) {
        if (part.problem.k == 0) continue;
        const int64_t first = columns;
        columns += part.problem.n;
        const GemmCall call(part.problem, part.buffers);
        const auto algorithms = WithVariations(libraries.cublas_lt(), call);
        EXPECT_FALSE(algorithms.empty());
        for (const auto& algorithm : algorithms) {
          for (const GemmPart& start : all) {
            if (start.problem.k == 0) PlainGemm(nullptr, start.problem, start.buffers);
          }
          call.Run(libraries.cublas_lt(), nullptr, algorithm);
          const TestTensor got = d.Download();
          double worst = 0;
          for (int64_t row = 0; row < m; ++row) {
            for (int64_t column = first; column < columns; ++column) {
              const auto i = static_cast<size_t>(row * n + column);
              worst = std::max(worst, std::fabs(got.at(row * ldc + column) - exact[i]) / error[i]);
            }
          }
          EXPECT_LE(worst, 1) << "columns from " << first << ": " << EncodeAlgorithm(algorithm);
        }
      }
      EXPECT_EQ(columns, n);
    }
  }
}

TEST(CudaColumnSums, EqualSumsInDouble) {
  PLIMSOLL_NEEDS_CUDA
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {0, 8}, {1, 8}, {1, 7}, {3000, 768}, {129, 264}, {513, 40}, {70, 333}, {20000, 3}};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    for (const auto& [rows, columns] : shapes) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      const TestTensor x = NormalValues(dtype, {rows, columns}, 6);
      const TestTensor acc = NormalValues(DType::kFloat32, {columns}, 7);
      const CudaTensor device_x(x), device_acc(acc), sums({DType::kFloat32, {columns}});
      const auto workspace = CudaMemory(ColumnSumsBytes(rows, columns));
      for (const bool add : {false, true}) {
        ColumnSums(nullptr, dtype, device_x.data(), rows, columns,
                   add ? static_cast<float*>(device_acc.data()) : nullptr,
                   static_cast<float*>(sums.data()), workspace.get());
        const TestTensor got = sums.Download();
        for (int64_t j = 0; j < columns; ++j) {
          double want = add ? acc.at(j) : 0;
          double size = 1;
          for (int64_t i = 0; i < rows; ++i) {
            want += x.at(i * columns + j);
            size += std::fabs(x.at(i * columns + j));
          }
          ASSERT_NEAR(got.at(j), want, 1e-6 * size) << "column " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
