// Norms, sums over tensors and the gradients of embeddings on the GPU, at the shapes of real models
// and at the boundaries between kernels, compared with the CPU's kernels; the same bits in every
// run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/dropout_draws.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/rank_of_several.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using Arguments = std::vector<const TestTensor*>;

// Results are rounded once on both sides, and sums over rows have thousands of terms.
double Tolerance(DType dtype) {
  return dtype == DType::kBFloat16 ? 0x1p-7 : dtype == DType::kFloat16 ? 0x1p-10 : 1e-4;
}

void ExpectNear(const TestTensor& got, const TestTensor& want, const std::string& what) {
  ASSERT_EQ(got.type(), want.type()) << what;
  double largest = 1;
  for (int64_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::fabs(want.at(i)));
  // Relative to the value, or to a tenth of the largest value if that is larger.
  const double tolerance = Tolerance(want.type().dtype);
  for (int64_t i = 0; i < want.size(); ++i) {
    const double allowed = tolerance * std::max(std::fabs(want.at(i)), 0.1 * largest);
    ASSERT_LE(std::fabs(got.at(i) - want.at(i)), allowed)
        << what << ", element " << i << ": " << got.at(i) << ", not " << want.at(i);
  }
}

// Runs the CUDA kernel twice, and compares it with the CPU kernel.
void ExpectAgree(const std::string& op, const Arguments& inputs,
                 graph::Attributes attributes = {}) {
  gpu::Libraries libraries;
  const std::vector<TestTensor> want = RunOp(op, inputs, attributes);
  const std::vector<TestTensor> got = RunCudaOp(op, inputs, libraries, attributes);
  const std::vector<TestTensor> again = RunCudaOp(op, inputs, libraries, attributes);
  for (size_t i = 0; i < want.size(); ++i) {
    const std::string what = op + ", output " + std::to_string(i);
    ExpectNear(got[i], want[i], what);
    EXPECT_EQ(std::memcmp(got[i].data(), again[i].data(), got[i].type().bytes()), 0)
        << what << ": other bits in a second run";
  }
}

TestTensor Positive(DType dtype, graph::Shape shape, int seed) {
  TestTensor tensor = NormalValues(dtype, shape, seed);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, 0.5 + std::fabs(tensor.at(i)));
  return tensor;
}

struct Size {
  int64_t rows, width;
};

class CudaNorm : public testing::TestWithParam<std::tuple<Size, DType>> {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_CUDA; }
};

TEST_P(CudaNorm, LayerNorm) {
  const auto [size, dtype] = GetParam();
  const DType f32 = DType::kFloat32;
  const TestTensor x = NormalValues(dtype, {size.rows, size.width}, 1);
  const TestTensor weight = Positive(dtype, {size.width}, 2),
                   bias = NormalValues(dtype, {size.width}, 3);
  ExpectAgree("layer_norm", {&x, &weight, &bias}, {{"eps", 1e-5}});
  const TestTensor mean = NormalValues(f32, {size.rows}, 4, 0.1),
                   rstd = Positive(f32, {size.rows}, 5);
  const TestTensor dy = NormalValues(dtype, {size.rows, size.width}, 6);
  const TestTensor acc = NormalValues(dtype, {size.rows, size.width}, 7);
  const TestTensor acc_weight = NormalValues(f32, {size.width}, 8),
                   acc_bias = NormalValues(f32, {size.width}, 9);
  ExpectAgree("layer_norm_backward",
              {&x, &weight, &mean, &rstd, &dy, &acc, &acc_weight, &acc_bias});
  ExpectAgree("layer_norm_backward", {&x, &weight, &mean, &rstd, &dy, nullptr, nullptr, nullptr});
}

TEST_P(CudaNorm, RmsNorm) {
  const auto [size, dtype] = GetParam();
  const DType f32 = DType::kFloat32;
  const TestTensor x = NormalValues(dtype, {size.rows, size.width}, 1);
  const TestTensor weight = Positive(dtype, {size.width}, 2);
  ExpectAgree("rms_norm", {&x, &weight}, {{"eps", 1e-6}});
  const TestTensor rstd = Positive(f32, {size.rows}, 5);
  const TestTensor dy = NormalValues(dtype, {size.rows, size.width}, 6);
  const TestTensor acc = NormalValues(dtype, {size.rows, size.width}, 7);
  const TestTensor acc_weight = NormalValues(f32, {size.width}, 8);
  ExpectAgree("rms_norm_backward", {&x, &weight, &rstd, &dy, &acc, &acc_weight});
}

void ExpectSameBits(const TestTensor& got, const TestTensor& want, const std::string& what) {
  ASSERT_EQ(got.type(), want.type()) << what;
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.type().bytes()), 0) << what;
}

// Fusions must not change a bit.
TEST_P(CudaNorm, FusedOpsHaveTheBitsOfTheirParts) {
  const auto [size, dtype] = GetParam();
  gpu::Libraries libraries;
  const TestTensor a = NormalValues(dtype, {size.rows, size.width}, 1);
  const TestTensor b = NormalValues(dtype, {size.rows, size.width}, 2);
  const TestTensor weight = Positive(dtype, {size.width}, 3),
                   bias = NormalValues(dtype, {size.width}, 4);
  const graph::Attributes eps = {{"eps", 1e-5}};
  const TestTensor x = RunCudaOp("add", {&a, &b}, libraries)[0];
  const auto norm = RunCudaOp("layer_norm", {&x, &weight, &bias}, libraries, eps);
  const auto added = RunCudaOp("add_layer_norm", {&a, &b, &weight, &bias}, libraries, eps);
  ExpectSameBits(added[0], x, "sum");
  for (size_t i = 0; i < norm.size(); ++i) ExpectSameBits(added[1 + i], norm[i], "add_layer_norm");
  const auto backward =
      RunCudaOp("layer_norm_backward", {&x, &weight, &norm[1], &norm[2], &b, &a, nullptr, nullptr},
                libraries);
  const auto both =
      RunCudaOp("layer_norm_with_backward",
                {&x, &weight, &bias, &norm[1], &norm[2], &b, &a, nullptr, nullptr}, libraries);
  ExpectSameBits(both[0], norm[0], "layer_norm again");
  for (size_t i = 0; i < backward.size(); ++i) {
    ExpectSameBits(both[1 + i], backward[i], "layer_norm_with_backward");
  }

  const auto rms = RunCudaOp("rms_norm", {&x, &weight}, libraries, eps);
  const auto rms_added = RunCudaOp("add_rms_norm", {&a, &b, &weight}, libraries, eps);
  for (size_t i = 0; i < rms.size(); ++i) ExpectSameBits(rms_added[1 + i], rms[i], "add_rms_norm");
  const auto rms_backward =
      RunCudaOp("rms_norm_backward", {&x, &weight, &rms[1], &b, &a, nullptr}, libraries);
  const auto rms_both =
      RunCudaOp("rms_norm_with_backward", {&x, &weight, &rms[1], &b, &a, nullptr}, libraries);
  ExpectSameBits(rms_both[0], rms[0], "rms_norm again");
  for (size_t i = 0; i < rms_backward.size(); ++i) {
    ExpectSameBits(rms_both[1 + i], rms_backward[i], "rms_norm_with_backward");
  }
}

void ExpectSameBits(const std::vector<TestTensor>& got, const std::vector<TestTensor>& want,
                    const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ExpectSameBits(got[i], want[i], what + ", output " + std::to_string(i));
  }
}

// With the attribute "largest": the bits without it, and the largest magnitudes of what is stored.
// Only an op that drops has a dropped gradient.
void ExpectLargest(const std::string& op, const Arguments& inputs, graph::Attributes attributes) {
  gpu::Libraries libraries;
  const std::vector<TestTensor> want = RunCudaOp(op, inputs, libraries, attributes);
  attributes.Set("largest", true);
  const graph::OpDef& def = graph::OpRegistry::Get().Require(op);
  const size_t first = def.outputs.size() - def.finds_largest.size();
  const auto exists = [&](size_t i) {
    return i < first ? i < want.size()
                     : static_cast<size_t>(def.finds_largest[i - first]) < want.size();
  };
  std::vector<bool> wanted;
  for (size_t i = 0; i < def.outputs.size(); ++i) wanted.push_back(exists(i));
  const std::vector<TestTensor> got = RunCudaOp(op, inputs, libraries, attributes, wanted);
  ASSERT_EQ(got.size(), def.outputs.size()) << op;
  for (size_t i = 0; i < want.size(); ++i) {
    ExpectSameBits(got[i], want[i], op + ", output " + std::to_string(i));
  }
  for (size_t i = first; i < got.size(); ++i) {
    if (!exists(i)) continue;
    const TestTensor& of = want[static_cast<size_t>(def.finds_largest[i - first])];
    double largest = 0;
    for (int64_t k = 0; k < of.size(); ++k) largest = std::max(largest, std::fabs(of.at(k)));
    EXPECT_EQ(got[i].at(0), largest) << op << ", output " << i;
  }
}

TEST_P(CudaNorm, FindsLargestMagnitudes) {
  const auto [size, dtype] = GetParam();
  const graph::Shape shape{size.rows, size.width};
  const TestTensor a = NormalValues(dtype, shape, 1), b = NormalValues(dtype, shape, 2);
  const TestTensor weight = Positive(dtype, {size.width}, 3),
                   bias = NormalValues(dtype, {size.width}, 4);
  const TestTensor mean = NormalValues(DType::kFloat32, {size.rows}, 5, 0.1),
                   rstd = Positive(DType::kFloat32, {size.rows}, 6);
  const TestTensor rng = Values(DType::kInt32, {2}, {7, 3});
  const graph::Attributes eps = {{"eps", 1e-5}}, drop = {{"p", 0.1}, {"key", int64_t{5}}};
  const graph::Attributes both = {{"eps", 1e-5}, {"p", 0.1}, {"key", int64_t{5}}};
  ExpectLargest("layer_norm", {&a, &weight, &bias}, eps);
  ExpectLargest("rms_norm", {&a, &weight}, eps);
  ExpectLargest("add_layer_norm", {&a, &b, &weight, &bias}, eps);
  ExpectLargest("add_layer_norm", {&a, &b, &weight, nullptr, &rng}, both);
  ExpectLargest("add_rms_norm", {&a, &b, &weight}, eps);
  ExpectLargest("add_rms_norm", {&a, &b, &weight, &rng}, both);
  Arguments layer = {&a, &weight, &mean, &rstd, &b, &a, nullptr, nullptr};
  Arguments layer_again = {&a, &weight, &bias, &mean, &rstd, &b, nullptr, nullptr, nullptr};
  Arguments rms = {&a, &weight, &rstd, &b, &a, nullptr};
  ExpectLargest("layer_norm_backward", layer, {});
  ExpectLargest("layer_norm_with_backward", layer_again, {});
  ExpectLargest("rms_norm_backward", rms, {});
  ExpectLargest("rms_norm_with_backward", rms, {});
  for (Arguments* inputs : {&layer, &layer_again, &rms}) inputs->push_back(&rng);
  ExpectLargest("layer_norm_backward", layer, drop);
  ExpectLargest("layer_norm_with_backward", layer_again, drop);
  ExpectLargest("rms_norm_backward", rms, drop);
  ExpectLargest("rms_norm_with_backward", rms, drop);
}

// The mask is that of the op `dropout`, in every kernel. With `of_ranks` the rows are those of rank
// 2 of 3.
void ExpectDropoutHasTheBitsOfItsParts(const Size& size, DType dtype, bool of_ranks) {
  SCOPED_TRACE(of_ranks ? "of ranks" : "");
  gpu::Libraries libraries;
  RankOfSeveral among(2, 3);
  const auto run = [&](const std::string& op, const Arguments& inputs,
                       graph::Attributes attributes) {
    if (of_ranks) attributes.Set("axis", std::string("tensor"));
    return RunCudaOp(op, inputs, libraries, std::move(attributes), {}, among.AlongTensor());
  };
  const graph::Shape shape{size.rows, size.width};
  const TestTensor a = NormalValues(dtype, shape, 1), b = NormalValues(dtype, shape, 2);
  const TestTensor weight = Positive(dtype, {size.width}, 3),
                   bias = NormalValues(dtype, {size.width}, 4);
  const TestTensor rng = Values(DType::kInt32, {2}, {7, 3});
  const graph::Attributes eps = {{"eps", 1e-5}}, drop = {{"p", 0.1}, {"key", int64_t{5}}};
  const graph::Attributes both = {{"eps", 1e-5}, {"p", 0.1}, {"key", int64_t{5}}};
  const TestTensor dropped = run("dropout", {&b, &rng}, drop)[0];

  const auto layer = run("add_layer_norm", {&a, &dropped, &weight, &bias}, eps);
  ExpectSameBits(run("add_layer_norm", {&a, &b, &weight, &bias, &rng}, both), layer,
                 "add_layer_norm");
  std::vector<TestTensor> want =
      run("layer_norm_backward",
          {&layer[0], &weight, &layer[2], &layer[3], &b, &a, nullptr, nullptr}, {});
  want.push_back(run("dropout", {&want[0], &rng}, drop)[0]);
  ExpectSameBits(
      run("layer_norm_backward",
          {&layer[0], &weight, &layer[2], &layer[3], &b, &a, nullptr, nullptr, &rng}, drop),
      want, "layer_norm_backward");
  want.insert(want.begin(), layer[1]);
  ExpectSameBits(
      run("layer_norm_with_backward",
          {&layer[0], &weight, &bias, &layer[2], &layer[3], &b, &a, nullptr, nullptr, &rng}, drop),
      want, "layer_norm_with_backward");

  const auto rms = run("add_rms_norm", {&a, &dropped, &weight}, eps);
  ExpectSameBits(run("add_rms_norm", {&a, &b, &weight, &rng}, both), rms, "add_rms_norm");
  want = run("rms_norm_backward", {&rms[0], &weight, &rms[2], &b, &a, nullptr}, {});
  want.push_back(run("dropout", {&want[0], &rng}, drop)[0]);
  const Arguments inputs = {&rms[0], &weight, &rms[2], &b, &a, nullptr, &rng};
  ExpectSameBits(run("rms_norm_backward", inputs, drop), want, "rms_norm_backward");
  want.insert(want.begin(), rms[1]);
  ExpectSameBits(run("rms_norm_with_backward", inputs, drop), want, "rms_norm_with_backward");
}

TEST_P(CudaNorm, DropoutHasTheBitsOfItsParts) {
  const auto [size, dtype] = GetParam();
  ExpectDropoutHasTheBitsOfItsParts(size, dtype, false);
  // The fusion gives norms only rows that begin with a block of draws.
  if (size.rows * size.width % kDrawsOfBlock != 0) return;
  ExpectDropoutHasTheBitsOfItsParts(size, dtype, true);
}

// Widths of models, and of each kernel: rows in a warp's registers, in a block's, or in none.
INSTANTIATE_TEST_SUITE_P(
    Sizes, CudaNorm,
    testing::Combine(testing::Values(Size{8191, 768}, Size{2050, 1600}, Size{1025, 896},
                                     Size{1, 1536}, Size{515, 2048}, Size{300, 4096},
                                     Size{63, 8192}, Size{40, 16384}, Size{17, 20000},
                                     Size{333, 770}, Size{6000, 64}),
                     testing::Values(DType::kBFloat16, DType::kFloat32)),
    [](const auto& info) {
      const Size size = std::get<0>(info.param);
      return std::to_string(size.rows) + "x" + std::to_string(size.width) +
             std::string(graph::Name(std::get<1>(info.param)));
    });

TEST(CudaSums, LargeTensors) {
  PLIMSOLL_NEEDS_CUDA
  const TestTensor x = Positive(DType::kFloat32, {1000003}, 1);
  const TestTensor low = Positive(DType::kBFloat16, {700, 999}, 2);
  for (const char* op : {"sum", "squared_norm"}) {
    ExpectAgree(op, {&x});
    ExpectAgree(op, {&low});
  }
}

// More tensors than one launch takes.
TEST(CudaSums, ManyTensors) {
  PLIMSOLL_NEEDS_CUDA
  std::vector<TestTensor> tensors;
  for (int i = 0; i < 2100; ++i) {
    tensors.push_back(
        NormalValues(i % 3 == 0 ? DType::kBFloat16 : DType::kFloat32, {i % 7 * 13 + 1}, i));
  }
  tensors.push_back(NormalValues(DType::kFloat32, {100001}, 7));
  Arguments arguments;
  for (const TestTensor& tensor : tensors) arguments.push_back(&tensor);
  ExpectAgree("global_norm", arguments);
}

// A norm has the same bits in one op as from sums of single tensors.
TEST(CudaSums, NormsFromSumsOfSquares) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  std::vector<TestTensor> tensors, sums;
  for (int i = 0; i < 1700; ++i) {
    tensors.push_back(
        NormalValues(i % 3 == 0 ? DType::kBFloat16 : DType::kFloat32, {i % 9 * 31}, i));
  }
  tensors.push_back(NormalValues(DType::kFloat32, {1000003}, 7));
  Arguments whole, parts;
  for (const TestTensor& tensor : tensors) {
    whole.push_back(&tensor);
    sums.push_back(RunCudaOp("square_sum", {&tensor}, libraries)[0]);
  }
  for (const TestTensor& sum : sums) parts.push_back(&sum);
  ExpectAgree("square_sum", {&tensors.back()});
  const TestTensor want = RunCudaOp("global_norm", whole, libraries)[0];
  EXPECT_GT(want.at(0), 0);
  EXPECT_EQ(RunCudaOp("root_of_sums", parts, libraries)[0].at(0), want.at(0));
}

TEST(CudaSums, InfinitiesAndNansComeThrough) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const TestTensor small = NormalValues(DType::kFloat32, {10}, 1);
  TestTensor large = NormalValues(DType::kFloat32, {200000}, 2);
  large.set(123457, -std::numeric_limits<double>::infinity());
  TestTensor norm = RunCudaOp("global_norm", {&small, &large}, libraries)[0];
  EXPECT_EQ(norm.at(0), std::numeric_limits<double>::infinity());
  large.set(77, std::numeric_limits<double>::quiet_NaN());
  norm = RunCudaOp("global_norm", {&small, &large}, libraries)[0];
  EXPECT_TRUE(std::isnan(norm.at(0)));
  const graph::Attributes clip{{"max_norm", 1.0}};
  EXPECT_TRUE(std::isnan(RunCudaOp("clip_factor", {&norm}, libraries, clip)[0].at(0)));
}

// Tokens as in text, with a few frequent ones; a single token; each token once.
TestTensor Tokens(int64_t batch, int64_t sequence, int64_t vocabulary, const std::string& kind) {
  TestTensor tokens({DType::kInt32, {batch, sequence}});
  std::mt19937 generator(1);
  std::uniform_real_distribution<double> uniform;
  for (int64_t i = 0; i < tokens.size(); ++i) {
    double token = std::floor(std::pow(static_cast<double>(vocabulary), uniform(generator))) - 1;
    if (kind == "one") token = 5;
    if (kind == "each") token = static_cast<double>(i * 7 % vocabulary);
    tokens.set(i, std::clamp(token, 0.0, static_cast<double>(vocabulary - 1)));
  }
  return tokens;
}

TEST(CudaEmbeddingDw, KindsOfText) {
  PLIMSOLL_NEEDS_CUDA
  for (const std::string kind : {"text", "one", "each"}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
      for (const int64_t width : {768, 100, 33}) {
        SCOPED_TRACE(kind + " " + std::to_string(width));
        const int64_t vocabulary = kind == "each" ? 6151 : 3000;
        const TestTensor tokens = Tokens(6, 1023, vocabulary, kind);
        const TestTensor dy = NormalValues(dtype, {6, 1023, width}, 2);
        const TestTensor acc = NormalValues(DType::kFloat32, {vocabulary, width}, 3);
        const graph::Attributes attributes{{"rows", vocabulary}};
        ExpectAgree("embedding_dw", {&tokens, &dy, &acc}, attributes);
        ExpectAgree("embedding_dw", {&tokens, &dy, nullptr}, attributes);
      }
    }
  }
}

TEST(CudaEmbeddingDw, Positions) {
  PLIMSOLL_NEEDS_CUDA
  const TestTensor dy = NormalValues(DType::kBFloat16, {9, 1000, 768}, 2);
  const TestTensor acc = NormalValues(DType::kFloat32, {1024, 768}, 3);
  ExpectAgree("position_dw", {&dy, &acc}, {{"rows", int64_t{1024}}});
}

}  // namespace
}  // namespace plimsoll::ops
