// Attention compared with its formula, written out with whole score matrices in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/dropout_draws.h"
#include "base/error.h"
#include "base/philox.h"
#include "ops/cpu/packed_gemm.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"
#include "tests/ops/rank_of_several.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;
using graph::Shape;

struct Case {
  int64_t batch, sequence, heads, kv_heads, head;
  bool causal;
  double dropout;
  std::vector<double> lengths = {};     // empty: no padding
  std::vector<int64_t> documents = {};  // tokens of each in a row; empty: one document
  int64_t window = 0;
  double scale = 0;    // 0: 1/√head
  double softcap = 0;  // 0: none
};

// The positions of a row's tokens in its documents, which row b has in another order than row 0.
std::vector<double> PositionsOf(const Case& c) {
  std::vector<double> positions;
  for (int64_t b = 0; b < c.batch; ++b) {
    std::vector<int64_t> documents = c.documents;
    std::ranges::rotate(documents, documents.begin() + b % std::ssize(documents));
    for (const int64_t tokens : documents) {
      for (int64_t i = 0; i < tokens; ++i) positions.push_back(static_cast<double>(i));
    }
  }
  return positions;
}

Attributes AttributesOf(const Case& c) {
  Attributes attributes{{"heads", c.heads},
                        {"kv_heads", c.kv_heads},
                        {"causal", c.causal},
                        {"dropout", c.dropout},
                        {"key", int64_t{7}}};
  if (c.window > 0) attributes.Set("window", c.window);
  if (c.scale > 0) attributes.Set("scale", c.scale);
  if (c.softcap > 0) attributes.Set("softcap", c.softcap);
  return attributes;
}

constexpr int32_t kRng[2] = {3, 4};

struct Reference {
  std::vector<double> out, lse, dqkv;
};

Reference Naive(const Case& c, const TestTensor& qkv, const TestTensor& dout) {
  const int64_t T = c.sequence, hd = c.head, C = (c.heads + 2 * c.kv_heads) * hd, O = c.heads * hd;
  Reference r;
  r.out.assign(c.batch * T * O, 0);
  r.lse.assign(c.batch * c.heads * T, 0);
  r.dqkv.assign(c.batch * T * C, 0);
  const double scale = c.scale > 0 ? c.scale : 1 / std::sqrt(static_cast<double>(hd));
  const PhiloxStream stream = DropoutStream(kRng, 7);
  const std::vector<double> positions =
      c.documents.empty() ? std::vector<double>() : PositionsOf(c);
  const auto sees = [&](int64_t b, int64_t i, int64_t j) {
    if (!positions.empty() && j < i - static_cast<int64_t>(positions.at(b * T + i))) return false;
    return c.window == 0 || j > i - c.window;
  };
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t g = h / (c.heads / c.kv_heads);
      const auto q_at = [&](int64_t i, int64_t d) { return (b * T + i) * C + h * hd + d; };
      const auto k_at = [&](int64_t j, int64_t d) {
        return (b * T + j) * C + (c.heads + g) * hd + d;
      };
      const auto v_at = [&](int64_t j, int64_t d) { return k_at(j, d) + c.kv_heads * hd; };
      const auto o_at = [&](int64_t i, int64_t d) { return (b * T + i) * O + h * hd + d; };
      const int64_t length = c.lengths.empty() ? T : static_cast<int64_t>(c.lengths[b]);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t keys = c.causal ? i + 1 : length;
        std::vector<double> p(keys), keep(keys, 1), dp(keys), slope(keys, 1);
        double largest = -1e300, total = 0;
        for (int64_t j = 0; j < keys; ++j) {
          for (int64_t d = 0; d < hd; ++d) p[j] += qkv.at(q_at(i, d)) * qkv.at(k_at(j, d)) * scale;
          if (c.softcap > 0) {
            const double t = std::tanh(p[j] / c.softcap);
            p[j] = c.softcap * t;
            slope[j] = 1 - t * t;
          }
          if (!sees(b, i, j)) p[j] = -INFINITY;
          largest = std::max(largest, p[j]);
        }
        for (double& x : p) total += x = std::exp(x - largest);
        r.lse[(b * c.heads + h) * T + i] = largest + std::log(total);
        for (int64_t j = 0; j < keys; ++j) {
          p[j] /= total;
          if (c.dropout > 0) {
            const uint64_t draw = ScoreDraw(b * c.heads + h, i, j, T);
            uint32_t word;
            stream.Words(draw / 2, 1, &word);
            const DropRule rule(c.dropout);
            keep[j] = (word >> draw % 2 * 16 & 0xFFFF) < rule.threshold ? 0 : rule.keep_scale;
          }
          for (int64_t d = 0; d < hd; ++d) {
            r.out[o_at(i, d)] += p[j] * keep[j] * qkv.at(v_at(j, d));
            dp[j] += dout.at(o_at(i, d)) * qkv.at(v_at(j, d)) * keep[j];
          }
        }
        double delta = 0;
        for (int64_t j = 0; j < keys; ++j) delta += p[j] * dp[j];
        for (int64_t j = 0; j < keys; ++j) {
          const double ds = p[j] * (dp[j] - delta) * slope[j] * scale;
          for (int64_t d = 0; d < hd; ++d) {
            r.dqkv[v_at(j, d)] += p[j] * keep[j] * dout.at(o_at(i, d));
            r.dqkv[q_at(i, d)] += ds * qkv.at(k_at(j, d));
            r.dqkv[k_at(j, d)] += ds * qkv.at(q_at(i, d));
          }
        }
      }
    }
  }
  return r;
}

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, AgreesWithItsFormulaOnAnyInstructionSetAndThreads) {
  const Case c = GetParam();
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    const double tolerance = dtype == DType::kFloat64 ? 1e-12 : 2e-5;
    // 16-bit results are rounded once; the backward pass also starts from a rounded out.
    const double rounding = dtype == DType::kBFloat16  ? 0x1p-8
                            : dtype == DType::kFloat16 ? 0x1p-11
                                                       : 0;
    const TestTensor qkv =
        NormalValues(dtype, {c.batch, c.sequence, (c.heads + 2 * c.kv_heads) * c.head}, 1);
    const TestTensor dout = NormalValues(dtype, {c.batch, c.sequence, c.heads * c.head}, 2);
    const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
    const TestTensor* const given = c.dropout > 0 ? &rng : nullptr;
    const TestTensor lengths = Values(DType::kInt32, {std::ssize(c.lengths)}, c.lengths);
    const TestTensor* const padded = c.lengths.empty() ? nullptr : &lengths;
    const bool apart = !c.documents.empty();
    const TestTensor positions =
        apart ? Values(DType::kInt32, {c.batch, c.sequence}, PositionsOf(c)) : TestTensor();
    const TestTensor* const documents = apart ? &positions : nullptr;
    const Reference reference = Naive(c, qkv, dout);
    std::vector<TestTensor> first;
    for (const cpu::GemmKernel kernel : {cpu::GemmKernel::kAvx2, cpu::GemmKernel::kAvx512}) {
      if (!cpu::GemmKernelSupported(kernel)) continue;
      const cpu::GemmKernel before = cpu::ActiveGemmKernel();
      cpu::SetGemmKernel(kernel);
      for (const int threads : {1, 3}) {
        std::vector<TestTensor> got =
            RunOp("attention", {&qkv, given, padded, documents}, AttributesOf(c), threads);
        got.push_back(RunOp("attention_backward",
                            {&qkv, &got[0], &got[1], &dout, given, padded, documents},
                            AttributesOf(c), threads)[0]);
        ExpectNear(got[0], reference.out, tolerance + rounding, "out");
        ExpectNear(got[1], reference.lse, tolerance, "lse");
        ExpectNear(got[2], reference.dqkv, 5 * tolerance + 4 * rounding, "dqkv");
        if (first.empty()) first = got;
        for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(SameBits(got[i], first[i])) << i;
      }
      cpu::SetGemmKernel(before);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionTest,
    testing::Values(Case{1, 1, 1, 1, 2, true, 0},       // one token
                    Case{2, 5, 2, 1, 4, true, 0},       // less than a panel
                    Case{1, 64, 2, 2, 64, true, 0},     // exactly a tile
                    Case{1, 130, 1, 1, 64, true, 0},    // two blocks of queries, one with a rest
                    Case{1, 200, 4, 2, 24, true, 0},    // shared keys, an odd head width
                    Case{1, 97, 2, 1, 20, false, 0},    // every key for every query
                    Case{1, 129, 1, 1, 80, false, 0},   //
                    Case{1, 70, 2, 1, 16, true, 0.25},  // dropout
                    Case{2, 33, 2, 2, 8, false, 0.5},   //
                    Case{1, 150, 4, 2, 8, false, 0.1},  // a threshold that is rounded
                    Case{4, 200, 2, 1, 16, false, 0, {200, 64, 131, 0}},  // padding
                    Case{2, 70, 2, 2, 24, true, 0.25, {70, 1}},
                    // Documents apart: shorter than a panel, longer than two blocks of queries.
                    Case{2, 12, 2, 1, 4, true, 0, {}, {5, 1, 6}},
                    Case{3, 300, 4, 2, 16, true, 0, {}, {1, 270, 29}},
                    Case{2, 256, 2, 2, 24, true, 0.25, {}, {64, 64, 128}},
                    Case{1, 330, 1, 1, 8, true, 0, {}, {40, 90, 1, 1, 150, 48}},
                    // Windows.
                    Case{1, 9, 1, 1, 4, true, 0, {}, {}, 1},
                    Case{1, 300, 4, 2, 16, true, 0, {}, {}, 100},
                    Case{2, 200, 2, 1, 16, true, 0.25, {}, {}, 17},
                    Case{2, 150, 2, 2, 8, true, 0, {150, 33}, {}, 64},
                    Case{2, 200, 2, 1, 16, true, 0.5, {}, {90, 110}, 50},
                    // Scales and soft caps, alone and with all of the above.
                    Case{1, 97, 2, 1, 20, false, 0, {}, {}, 0, 0.1},
                    Case{1, 150, 4, 2, 24, true, 0, {}, {}, 0, 0, 0.5},
                    Case{1, 130, 2, 1, 64, false, 0, {}, {}, 0, 0.5, 3},
                    Case{1, 150, 2, 1, 256, true, 0, {}, {}, 64, 0.0625, 50},
                    Case{2, 200, 2, 1, 16, true, 0.5, {}, {90, 110}, 50, 0.3, 0.8},
                    Case{2, 150, 2, 2, 8, true, 0.25, {150, 33}, {}, 64, 0, 2}));

// A soft cap far above the scores changes them by less than a rounding, one far below makes them
// equal: then every key has the same weight.
TEST(Attention, SoftCapsBendFromNothingToEverything) {
  const TestTensor qkv = NormalValues(DType::kFloat64, {1, 40, 3 * 8}, 1);
  Case c{1, 40, 1, 1, 8, true, 0};
  const auto plain = RunOp("attention", {&qkv, nullptr}, AttributesOf(c));
  c.softcap = 1e9;
  const auto loose = RunOp("attention", {&qkv, nullptr}, AttributesOf(c));
  ExpectNear(loose[0], Naive({1, 40, 1, 1, 8, true, 0}, qkv, plain[0]).out, 1e-12, "out");
  c.softcap = 1e-9;
  const auto tight = RunOp("attention", {&qkv, nullptr}, AttributesOf(c));
  double mean = 0;
  for (int64_t j = 0; j < 40; ++j) mean += qkv.at(j * 24 + 16) / 40;
  EXPECT_NEAR(tight[0].at(39 * 8), mean, 1e-8);
  EXPECT_NEAR(tight[1].at(39), std::log(40.0), 1e-8);
}

TEST(Attention, RefusesScalesAndCapsBelowZero) {
  const TestTensor qkv = NormalValues(DType::kFloat32, {1, 4, 12}, 1);
  for (const char* name : {"scale", "softcap"}) {
    Attributes attributes = AttributesOf({1, 4, 1, 1, 4, true, 0});
    attributes.Set(name, -1.0);
    EXPECT_THROW(RunOp("attention", {&qkv, nullptr}, attributes), InternalError) << name;
  }
}

// Values of the head from `first` on, `count` of them, of x[B,T,heads·hd].
TestTensor HeadsOf(const TestTensor& x, int64_t heads, int64_t first, int64_t count) {
  const Shape& shape = x.type().shape;
  const int64_t head = shape.dim(-1) / heads;
  TestTensor part({x.type().dtype, shape.WithLast(count * head)});
  for (int64_t i = 0; i < part.size(); ++i) {
    const int64_t row = i / (count * head), column = i % (count * head);
    part.set(i, x.at((row * heads + first) * head + column));
  }
  return part;
}

// [Q, K, V] of a rank's heads.
TestTensor QkvOf(const TestTensor& qkv, const Case& whole, int rank, int ranks) {
  const int64_t all = whole.heads + 2 * whole.kv_heads;
  const int64_t heads = whole.heads / ranks, kv_heads = whole.kv_heads / ranks;
  const TestTensor parts[] = {
      HeadsOf(qkv, all, rank * heads, heads),
      HeadsOf(qkv, all, whole.heads + rank * kv_heads, kv_heads),
      HeadsOf(qkv, all, whole.heads + whole.kv_heads + rank * kv_heads, kv_heads)};
  const int64_t width = (heads + 2 * kv_heads) * whole.head;
  TestTensor own({qkv.type().dtype, qkv.type().shape.WithLast(width)});
  int64_t to = 0;
  for (const TestTensor& part : parts) {
    const int64_t columns = part.type().shape.dim(-1);
    for (int64_t i = 0; i < part.size(); ++i) {
      own.set(i / columns * width + to + i % columns, part.at(i));
    }
    to += columns;
  }
  return own;
}

// Ranks that share the heads drop what one rank drops.
TEST(Attention, ARanksHeadsHaveTheBitsOfThatPartOfAllHeads) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (const Case& c : {Case{2, 70, 4, 4, 8, true, 0.25}, Case{3, 33, 8, 4, 16, false, 0.4}}) {
      const TestTensor qkv =
          NormalValues(dtype, {c.batch, c.sequence, (c.heads + 2 * c.kv_heads) * c.head}, 1);
      const TestTensor dout = NormalValues(dtype, {c.batch, c.sequence, c.heads * c.head}, 2);
      const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
      const auto whole = RunOp("attention", {&qkv, &rng}, AttributesOf(c));
      const auto whole_dqkv =
          RunOp("attention_backward", {&qkv, &whole[0], &whole[1], &dout, &rng}, AttributesOf(c));
      for (const int ranks : {2, 4}) {
        for (int rank = 0; rank < ranks; ++rank) {
          SCOPED_TRACE(testing::Message()
                       << graph::Name(dtype) << ", rank " << rank << " of " << ranks);
          Case own = c;
          own.heads /= ranks;
          own.kv_heads /= ranks;
          Attributes attributes = AttributesOf(own);
          attributes.Set("axis", std::string("tensor"));
          RankOfSeveral among(rank, ranks);
          const auto run = [&](const std::string& op, std::vector<const TestTensor*> inputs) {
            return RunOp(op, std::move(inputs), attributes, 2, {}, among.AlongTensor());
          };
          const TestTensor own_qkv = QkvOf(qkv, c, rank, ranks);
          const TestTensor own_dout = HeadsOf(dout, c.heads, rank * own.heads, own.heads);
          const auto got = run("attention", {&own_qkv, &rng});
          EXPECT_TRUE(SameBits(got[0], HeadsOf(whole[0], c.heads, rank * own.heads, own.heads)));
          const auto got_dqkv =
              run("attention_backward", {&own_qkv, &got[0], &got[1], &own_dout, &rng});
          EXPECT_TRUE(SameBits(got_dqkv[0], QkvOf(whole_dqkv[0], c, rank, ranks)));
        }
      }
    }
  }
}

// What lies in the padding has no effect, not even if it is no number.
TEST(Attention, DoesNotReadPadding) {
  TestTensor qkv = NormalValues(DType::kFloat32, {1, 100, 3 * 16}, 5);
  const TestTensor lengths = Values(DType::kInt32, {1}, {70});
  const Attributes attributes = AttributesOf({1, 100, 1, 1, 16, false, 0});
  const auto run = [&] {
    std::vector<TestTensor> got = RunOp("attention", {&qkv, nullptr, &lengths}, attributes);
    const TestTensor dout = NormalValues(DType::kFloat32, {1, 100, 16}, 6);
    got.push_back(RunOp("attention_backward", {&qkv, &got[0], &got[1], &dout, nullptr, &lengths},
                        attributes)[0]);
    return got;
  };
  const std::vector<TestTensor> first = run();
  for (int64_t i = 70 * 48; i < 100 * 48; ++i) qkv.set(i, std::nan(""));
  const std::vector<TestTensor> second = run();
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(SameBits(first[i], second[i])) << i;
}

TEST(Attention, RefusesALengthBeyondTheRow) {
  const TestTensor qkv = NormalValues(DType::kFloat32, {1, 10, 3 * 16}, 5);
  const TestTensor lengths = Values(DType::kInt32, {1}, {11});
  EXPECT_THROW(
      RunOp("attention", {&qkv, nullptr, &lengths}, AttributesOf({1, 10, 1, 1, 16, false, 0})),
      InternalError);
}

TEST(Attention, StaysFiniteForLargeScores) {
  const TestTensor qkv = NormalValues(DType::kFloat32, {1, 100, 3 * 16}, 5, 60);
  const Attributes attributes = AttributesOf({1, 100, 1, 1, 16, true, 0});
  const std::vector<TestTensor> got = RunOp("attention", {&qkv, nullptr}, attributes);
  for (int64_t i = 0; i < got[0].size(); ++i) ASSERT_TRUE(std::isfinite(got[0].at(i)));
}

TEST(Attention, PassesNanOn) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    TestTensor qkv = NormalValues(dtype, {1, 40, 3 * 16}, 5);
    qkv.set(10 * 48 + 16, std::nan(""));  // a key: seen by the queries from 10 on
    const std::vector<TestTensor> got =
        RunOp("attention", {&qkv, nullptr}, AttributesOf({1, 40, 1, 1, 16, true, 0}));
    EXPECT_FALSE(std::isnan(got[0].at(9 * 16)));
    EXPECT_TRUE(std::isnan(got[0].at(10 * 16)));
    EXPECT_TRUE(std::isnan(got[0].at(39 * 16 + 15)));
  }
}

TEST(Attention, LseMayBeLeftOut) {
  const TestTensor qkv = NormalValues(DType::kFloat32, {1, 40, 3 * 16}, 5);
  const Attributes attributes = AttributesOf({1, 40, 1, 1, 16, true, 0});
  const std::vector<TestTensor> with = RunOp("attention", {&qkv, nullptr}, attributes);
  const std::vector<TestTensor> without =
      RunOp("attention", {&qkv, nullptr}, attributes, 2, {true, false});
  EXPECT_TRUE(SameBits(with[0], without[0]));
}

TEST(Attention, FindsTheLargestMagnitudesOfItsResults) {
  const Case c{2, 70, 4, 2, 16, true, 0};
  const TestTensor lengths = Values(DType::kInt32, {2}, {70, 33});
  Attributes attributes = AttributesOf(c);
  attributes.Set("largest", true);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    const TestTensor qkv = NormalValues(dtype, {2, 70, 8 * 16}, 5);
    const TestTensor dout = NormalValues(dtype, {2, 70, 4 * 16}, 6);
    for (const TestTensor* padded : {static_cast<const TestTensor*>(nullptr), &lengths}) {
      const auto run = [&](const std::string& op, std::vector<const TestTensor*> inputs) {
        inputs.push_back(nullptr);
        inputs.push_back(padded);
        return RunOp(op, inputs, attributes);
      };
      const std::vector<TestTensor> out = run("attention", {&qkv});
      ExpectLargest(out[2], out[0]);
      const std::vector<TestTensor> dqkv =
          run("attention_backward", {&qkv, &out[0], &out[1], &dout});
      ExpectLargest(dqkv[1], dqkv[0]);
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
