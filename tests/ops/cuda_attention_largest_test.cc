// On a GPU, attention, its gradient and rotary positions find the largest magnitudes of their
// results, by every kernel, without changing a bit of them.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

struct Case {
  int64_t batch, sequence, heads, kv_heads, head;
  bool causal;
  double dropout = 0;
  std::vector<double> lengths = {};  // empty: no padding
};

gpu::Libraries& Libraries() {
  static auto* libraries = new gpu::Libraries;  // never destroyed: the driver may go first
  return *libraries;
}

// The results without their largest magnitudes.
std::vector<TestTensor> ExpectFindsLargest(const std::string& op,
                                           const std::vector<const TestTensor*>& inputs,
                                           Attributes attributes) {
  const std::vector<TestTensor> want = RunCudaOp(op, inputs, Libraries(), attributes);
  attributes.Set("largest", true);
  const std::vector<TestTensor> got = RunCudaOp(op, inputs, Libraries(), attributes);
  EXPECT_EQ(got.size(), want.size() + 1);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(SameBits(got[i], want[i])) << "output " << i;
  ExpectLargest(got.back(), got[0]);
  return want;
}

class CudaAttentionLargestTest : public testing::TestWithParam<Case> {};

// `scale`: of the gradient of the output.
void ExpectAttentionFindsLargest(const Case& c, DType dtype, bool tf32, double scale) {
  SCOPED_TRACE(std::string(graph::Name(dtype)) + (tf32 ? " in tf32" : ""));
  const Attributes attributes{{"heads", c.heads},   {"kv_heads", c.kv_heads},
                              {"causal", c.causal}, {"dropout", c.dropout},
                              {"key", int64_t{7}},  {"tf32", tf32}};
  const TestTensor qkv =
      NormalValues(dtype, {c.batch, c.sequence, (c.heads + 2 * c.kv_heads) * c.head}, 1);
  const TestTensor dout = NormalValues(dtype, {c.batch, c.sequence, c.heads * c.head}, 2, scale);
  const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
  const TestTensor* const given = c.dropout > 0 ? &rng : nullptr;
  TestTensor lengths;
  if (!c.lengths.empty()) lengths = Values(DType::kInt32, {c.batch}, c.lengths);
  const TestTensor* const padded = c.lengths.empty() ? nullptr : &lengths;
  const auto out = ExpectFindsLargest("attention", {&qkv, given, padded}, attributes);
  ExpectFindsLargest("attention_backward", {&qkv, &out[0], &out[1], &dout, given, padded},
                     attributes);
}

TEST_P(CudaAttentionLargestTest, IsThatOfTheResults) {
  PLIMSOLL_NEEDS_CUDA
  const std::pair<DType, bool> types[] = {{DType::kFloat32, false},
                                          {DType::kFloat32, true},
                                          {DType::kBFloat16, false},
                                          {DType::kFloat16, false}};
  for (const auto& [dtype, tf32] : types) ExpectAttentionFindsLargest(GetParam(), dtype, tf32, 1);
}

// Gradients that overflow: infinity, or NaN.
TEST_P(CudaAttentionLargestTest, KeepsWhatIsNotFinite) {
  PLIMSOLL_NEEDS_CUDA
  ExpectAttentionFindsLargest(GetParam(), DType::kFloat16, false, 30000);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttentionLargestTest,
                         testing::Values(Case{2, 130, 4, 2, 64, true},                        //
                                         Case{2, 130, 4, 2, 64, true, 0.2},                   //
                                         Case{4, 200, 4, 2, 64, true, 0.2, {200, 65, 0, 1}},  //
                                         Case{4, 200, 4, 2, 64, false, 0, {200, 65, 0, 1}},   //
                                         Case{1, 65, 2, 1, 24, false},                        //
                                         Case{1, 99, 2, 1, 128, false, 0.5},                  //
                                         Case{1, 140, 2, 1, 80, true},                        //
                                         Case{2, 65, 4, 1, 192, true, 0.3},                   //
                                         Case{4, 150, 4, 2, 136, false, 0.2, {150, 65, 0, 1}},
                                         Case{2, 140, 2, 1, 256, true},     //
                                         Case{1, 97, 4, 2, 21, true, 0.2},  // no packs
                                         Case{1, 70, 2, 2, 300, false}));   //

// Of `batch` rows: the sequence's, and shorter ones.
std::vector<double> Lengths(int64_t batch, double sequence) {
  std::vector<double> lengths;
  for (int64_t b = 0; b < batch; ++b) {
    lengths.push_back(b % 4 == 0 ? sequence : b % 4 == 1 ? 65 : b % 4 - 2);
  }
  return lengths;
}

// Enough heads for the gradients in one pass on Hopper, of narrow heads and of wide ones; with
// units that add to the sums of others.
INSTANTIATE_TEST_SUITE_P(OnePass, CudaAttentionLargestTest,
                         testing::Values(Case{64, 193, 12, 12, 8, false},      //
                                         Case{4, 1025, 16, 2, 64, true, 0.1},  //
                                         Case{24, 513, 8, 4, 40, false},       //
                                         Case{12, 257, 4, 4, 96, false, 0.1},  //
                                         Case{4, 1000, 14, 2, 128, true},      //
                                         Case{64, 130, 8, 2, 64, false, 0.1, Lengths(64, 130)},
                                         Case{64, 130, 8, 8, 40, true, 0, Lengths(64, 130)},
                                         Case{24, 257, 4, 2, 128, true, 0.1, Lengths(24, 257)},
                                         Case{24, 257, 4, 4, 96, false, 0, Lengths(24, 257)},
                                         Case{12, 130, 12, 6, 192, true, 0.2},  //
                                         Case{2, 1100, 4, 1, 256, false}));

// Also of the values, which are not rotated; in place they aren't even written.
TEST(CudaRotary, FindsTheLargestMagnitudeOfItsResult) {
  PLIMSOLL_NEEDS_CUDA
  const Attributes attributes{
      {"heads", int64_t{6}}, {"kv_heads", int64_t{2}}, {"theta", 10000.0}, {"inverse", true}};
  Attributes with_largest = attributes;
  with_largest.Set("largest", true);
  // Heads of whole packs, of none, and of more pairs than a launch takes.
  for (const int64_t head : {64, 6, 1040}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      SCOPED_TRACE(std::string(graph::Name(dtype)) + " width " + std::to_string(head));
      TestTensor qkv = NormalValues(dtype, {11, 5, 10 * head}, 1);
      for (const int64_t at : {int64_t{0}, head / 2 + 1, 8 * head - 1, 8 * head, qkv.size() - 1}) {
        const double before = qkv.at(at);
        qkv.set(at, -100);
        const TestTensor want = ExpectFindsLargest("rotary", {&qkv}, attributes)[0];
        const CudaTensor memory(qkv);
        CudaOpRunner in_place("rotary", {&memory}, with_largest);
        in_place.Share(0, memory);
        in_place.Run(Libraries());
        EXPECT_TRUE(SameBits(in_place.output(0).Download(), want));
        ExpectLargest(in_place.output(1).Download(), want);
        qkv.set(at, before);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
