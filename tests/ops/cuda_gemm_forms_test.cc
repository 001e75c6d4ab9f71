// Our own products on Hopper compared with sums in double: every form, types, odd sizes, rows with
// gaps, sums added to existing values, sums of rows; and how steps are shared.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gpu/capability.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda/products/gemm_forms.h"
#include "ops/cuda/products/hopper_shares.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

struct FormCase {
  std::string label;
  int64_t m, n, k;
  DType operands = DType::kBFloat16;
  int64_t pad = 0;  // of each row; a multiple of 8
};

// The uses of products in layers.
enum class Use { kForward, kForwardBias, kDx, kDw, kDwAdd, kDwSums, kDwSumsAdd };

GemmProblem ProblemOf(const FormCase& c, Use use) {
  GemmProblem p;
  const bool gradient = use >= Use::kDw;
  const bool sums = use == Use::kDwSums || use == Use::kDwSumsAdd;
  p.trans_a = gradient;
  p.trans_b = use == Use::kForward || use == Use::kForwardBias;
  p.m = c.m;
  p.n = c.n;
  p.k = c.k;
  p.lda = (p.trans_a ? c.m : c.k) + (sums ? 0 : c.pad);
  p.ldb = (p.trans_b ? c.k : c.n) + c.pad;
  p.ldc = c.n + c.pad;
  p.type_a = p.type_b = c.operands;
  p.result = gradient ? DType::kFloat32 : c.operands;
  p.beta = use == Use::kDwAdd || use == Use::kDwSumsAdd ? 1 : 0;
  p.epilogue = use == Use::kForwardBias ? GemmEpilogue::kBias
               : sums                   ? GemmEpilogue::kSums
                                        : GemmEpilogue::kNone;
  return p;
}

double Rounding(DType dtype) {
  return dtype == DType::kBFloat16 ? 0x1p-8 : dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-22;
}

// op(A) · op(B) in double; large ones by the plain kernel, which other tests compare with doubles.
std::vector<double> Products(const GemmProblem& p, const GemmBuffers& buffers, const TestTensor& a,
                             const TestTensor& b) {
  std::vector<double> sums(static_cast<size_t>(p.m * p.n));
  if (p.m * p.n * p.k > 250'000'000) {
    GemmProblem plain = p;
    plain.result = DType::kFloat32;
    plain.ldc = p.n;
    plain.beta = 0;
    plain.epilogue = GemmEpilogue::kNone;
    const CudaTensor d({DType::kFloat32, {p.m * p.n}});
    GemmBuffers of_plain = buffers;
    of_plain.bias = nullptr;
    of_plain.d = d.data();
    PlainGemm(nullptr, plain, of_plain);
    const TestTensor got = d.Download();
    for (int64_t i = 0; i < p.m * p.n; ++i) sums[static_cast<size_t>(i)] = got.at(i);
    return sums;
  }
  std::vector<double> right(static_cast<size_t>(p.k * p.n));  // [k, n]
  for (int64_t k = 0; k < p.k; ++k) {
    for (int64_t j = 0; j < p.n; ++j) {
      right[static_cast<size_t>(k * p.n + j)] = b.at(p.trans_b ? j * p.ldb + k : k * p.ldb + j);
    }
  }
  for (int64_t i = 0; i < p.m; ++i) {
    double* const row = &sums[static_cast<size_t>(i * p.n)];
    for (int64_t k = 0; k < p.k; ++k) {
      const double x = a.at(p.trans_a ? k * p.lda + i : i * p.lda + k);
      const double* const y = &right[static_cast<size_t>(k * p.n)];
      for (int64_t j = 0; j < p.n; ++j) row[j] += x * y[j];
    }
  }
  return sums;
}

// Returns the number of forms checked.
int Check(const FormCase& c, Use use) {
  const GemmProblem p = ProblemOf(c, use);
  const bool sums = p.epilogue == GemmEpilogue::kSums;
  const TestTensor a = NormalValues(c.operands, {(p.trans_a ? p.k : p.m) * p.lda}, 1);
  const TestTensor b = NormalValues(c.operands, {(p.trans_b ? p.n : p.k) * p.ldb}, 2);
  const TestTensor old = NormalValues(p.result, {p.m * p.ldc}, 3);
  const TestTensor bias = NormalValues(p.result, {p.n}, 4);
  const TestTensor old_sums = NormalValues(DType::kFloat32, {p.m}, 5);
  const CudaTensor device_a(a), device_b(b), device_bias(bias);
  const auto workspace = CudaMemory(kGemmWorkspaceBytes);
  GemmBuffers buffers;
  buffers.a = device_a.data();
  buffers.b = device_b.data();
  if (p.epilogue == GemmEpilogue::kBias) buffers.bias = device_bias.data();
  buffers.workspace = workspace.get();
  buffers.workspace_bytes = kGemmWorkspaceBytes;
  const std::vector<double> want = Products(p, buffers, a, b);
  std::vector<double> rows(static_cast<size_t>(p.m));
  for (int64_t i = 0; sums && i < p.m; ++i) {
    for (int64_t k = 0; k < p.k; ++k) rows[static_cast<size_t>(i)] += a.at(k * p.lda + i);
  }

  const std::vector<int> forms = FormsFor(p, buffers);
  for (int form : forms) {
    SCOPED_TRACE(GemmForms()[static_cast<size_t>(form)].name);
    TestTensor first, first_sums;
    for (const int round : {0, 1}) {
      // The second round starts with other contents of the workspace.
      gpu::Check(cudaMemset(workspace.get(), round == 0 ? 0xFF : 0x3F, kGemmWorkspaceBytes),
                 "cudaMemset");
      const CudaTensor d(old), row_sums(old_sums);
      buffers.d = d.data();
      buffers.c = p.beta == 0 ? nullptr : d.data();
      if (sums) buffers.sums = static_cast<float*>(row_sums.data());
      buffers.old_sums = use == Use::kDwSumsAdd ? buffers.sums : nullptr;
      RunForm(form, nullptr, p, buffers);
      gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      const TestTensor got = d.Download(), got_sums = row_sums.Download();
      if (round == 1) {
        EXPECT_EQ(std::memcmp(got.data(), first.data(), got.type().bytes()), 0);
        EXPECT_EQ(std::memcmp(got_sums.data(), first_sums.data(), got_sums.type().bytes()), 0);
        continue;
      }
      first = got;
      first_sums = got_sums;
      for (int64_t i = 0; i < p.m; ++i) {
        if (sums) {
          const double before = buffers.old_sums == nullptr ? 0 : old_sums.at(i);
          EXPECT_NEAR(got_sums.at(i), rows[static_cast<size_t>(i)] + before,
                      1e-6 * static_cast<double>(p.k) + 1e-6)
              << "sum of row " << i;
        }
        for (int64_t j = 0; j < p.ldc; ++j) {
          const double is = got.at(i * p.ldc + j), was = old.at(i * p.ldc + j);
          const auto at = static_cast<size_t>(i * p.n + j);
          double value = was, margin = 0;  // in a row's gap
          if (j < p.n) {
            value = want[at] + (p.beta == 0 ? 0 : was) + (buffers.bias == nullptr ? 0 : bias.at(j));
            // The terms' magnitudes add up to 0.64 · k.
            margin = 1e-6 * static_cast<double>(p.k) + Rounding(p.result) * std::fabs(value) + 1e-6;
          }
          if (std::fabs(is - value) <= margin) continue;
          ADD_FAILURE() << "row " << i << " column " << j << ": is " << is << ", value " << value;
          return 0;
        }
        if (testing::Test::HasFailure()) return 0;
      }
    }
  }
  return static_cast<int>(forms.size());
}

class CudaGemmFormsTest : public testing::TestWithParam<FormCase> {};

TEST_P(CudaGemmFormsTest, EqualSumsInDouble) {
  PLIMSOLL_NEEDS_CUDA
  if (!gpu::OnHopper()) GTEST_SKIP() << "no Hopper GPU, or no code for it";
  for (const Use use : {Use::kForward, Use::kForwardBias, Use::kDx, Use::kDw, Use::kDwAdd,
                        Use::kDwSums, Use::kDwSumsAdd}) {
    EXPECT_GT(Check(GetParam(), use), 0) << "use " << static_cast<int>(use);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaGemmFormsTest,
    testing::Values(FormCase{"OneStep", 128, 256, 64}, FormCase{"FewElements", 8, 8, 8},
                    FormCase{"OddRows", 200, 264, 200},
                    FormCase{"Fp16", 136, 520, 328, DType::kFloat16},
                    FormCase{"RowsWithGaps", 264, 200, 136, DType::kBFloat16, 8},
                    FormCase{"SeveralTurnsOfTheRing", 392, 520, 1032},
                    FormCase{"SharedAmongAll", 136, 264, 6000},
                    FormCase{"SharedWithHelpers", 2304, 768, 1544},
                    FormCase{"MoreTilesThanClusters", 2312, 1800, 72}),
    [](const auto& info) { return info.param.label; });

// Rows must be multiples of 16 bytes at 16-byte addresses: the copy engine accepts no others.
TEST(CudaGemmForms, LeaveUnevenRowsToOthers) {
  PLIMSOLL_NEEDS_CUDA
  const auto memory = CudaMemory(1 << 20);
  GemmBuffers buffers;
  buffers.a = buffers.b = buffers.d = memory.get();
  buffers.workspace = memory.get();
  EXPECT_TRUE(FormsFor(ProblemOf({"", 64, 64, 63}, Use::kForward), buffers).empty());
  EXPECT_TRUE(FormsFor(ProblemOf({"", 63, 64, 64}, Use::kDw), buffers).empty());
  buffers.a = static_cast<char*>(memory.get()) + 2;
  EXPECT_TRUE(FormsFor(ProblemOf({"", 64, 64, 64}, Use::kForward), buffers).empty());
}

TEST(StepShares, CoverEachStepOnceAndLoadAllClustersAlike) {
  for (const int clusters : {1, 2, 57, 66, 72}) {
    for (int tiles = 1; tiles <= clusters; ++tiles) {
      for (const int steps : {1, 2, 7, 60, 512}) {
        SCOPED_TRACE(std::to_string(tiles) + " tiles of " + std::to_string(steps) + " steps for " +
                     std::to_string(clusters));
        const StepShares shares = ShareSteps(tiles, steps, clusters);
        ASSERT_EQ(shares.begin.size(), static_cast<size_t>(clusters) + 1);
        ASSERT_EQ(shares.parts.size(), static_cast<size_t>(tiles) + 1);
        ASSERT_LE(shares.shares.size(), 2 * static_cast<size_t>(clusters));
        std::vector<int> done(static_cast<size_t>(tiles * steps));
        std::vector<bool> parts(shares.shares.size());
        int longest = 0;
        for (size_t cluster = 0; cluster < static_cast<size_t>(clusters); ++cluster) {
          int mine = 0;
          for (size_t i = shares.begin[cluster]; i < shares.begin[cluster + 1]; ++i) {
            const TileShare& share = shares.shares[i];
            ASSERT_GE(share.part, shares.parts[share.tile]);
            ASSERT_LT(share.part, shares.parts[share.tile + 1u]);
            ASSERT_FALSE(parts[share.part]) << "two of one number";
            parts[share.part] = true;
            int taken = 0;
            for (const StepRun& run : share.runs) {
              for (int j = 0; j < run.count; ++j, ++taken) {
                ++done[static_cast<size_t>(share.tile * steps + run.first + j * run.stride)];
              }
            }
            ASSERT_GT(taken, 0);
            mine += taken;
          }
          longest = std::max(longest, mine);
        }
        for (int count : done) ASSERT_EQ(count, 1);
        // Helpers are not used for a few steps: they would cost more than they save.
        EXPECT_LE(longest, tiles * steps / clusters + 24);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
