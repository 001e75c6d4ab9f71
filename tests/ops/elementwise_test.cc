// Properties of single ops beyond the registry test: dropout's expectation, the precision of the
// vectorised functions over their whole range, errors on bad indices, in-place updates.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dropout_draws.h"
#include "base/error.h"
#include "base/philox.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/reductions/reduce.h"
#include "ops/simd.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/guarded_call.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_runner.h"
#include "tests/ops/rank_of_several.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Program;
using graph::Role;
using graph::TensorType;
using graph::Value;

constexpr int32_t kSeedAndStep[2] = {11, 12};

// Which elements dropout with key 5 drops.
std::vector<bool> Dropped(const TensorType& type, graph::Attributes attributes) {
  ThreadPool pool(2);
  attributes.Set("key", int64_t{5});
  HostTensor x = PoisonedTensor(type), rng = PoisonedTensor({DType::kInt32, {2}});
  const int64_t n = type.shape.elements();
  for (int64_t i = 0; i < n; ++i) x.set(i, 1);
  for (int i : {0, 1}) rng.set(i, kSeedAndStep[i]);
  const std::vector<std::optional<HostTensor>> inputs = {x, rng};
  const auto y = *RunKernel({.op = graph::OpRegistry::Get().Require("dropout"),
                             .attributes = attributes,
                             .inputs = inputs},
                            pool)[0];
  std::vector<bool> dropped;
  for (int64_t i = 0; i < n; ++i) dropped.push_back(y.value(i) == 0);
  return dropped;
}

TEST(Dropout, KeepsTheExpectation) {
  ThreadPool pool(2);
  const graph::Attributes attributes = {{"p", 0.3}, {"key", int64_t{5}}};
  const double keep_scale = DropRule(0.3).keep_scale;
  constexpr int64_t kElements = 200000;
  HostTensor x = PoisonedTensor({DType::kFloat32, {kElements}});
  HostTensor rng = PoisonedTensor({DType::kInt32, {2}});
  for (int64_t i = 0; i < kElements; ++i) x.set(i, 2);
  for (int32_t seed : {1, 2, 3}) {
    rng.set(0, seed);
    rng.set(1, 0);
    const std::vector<std::optional<HostTensor>> inputs = {x, rng};
    const auto y = *RunKernel({.op = graph::OpRegistry::Get().Require("dropout"),
                               .attributes = attributes,
                               .inputs = inputs},
                              pool)[0];
    int64_t dropped = 0;
    double sum = 0;
    for (int64_t i = 0; i < kElements; ++i) {
      if (y.value(i) == 0) {
        ++dropped;
      } else {
        ASSERT_FLOAT_EQ(static_cast<float>(y.value(i)), static_cast<float>(2 * keep_scale));
      }
      sum += y.value(i);
    }
    // Six standard deviations of a binomial count: √(n p (1 − p)) = 205.
    EXPECT_NEAR(static_cast<double>(dropped), 0.3 * kElements, 6 * 205);
    EXPECT_NEAR(sum / kElements, 2, 0.02);
  }
}

// Samples are kept or dropped as wholes, by one word each, across the chunks of the threaded loop.
TEST(DropPath, DrawsAWordForEachSample) {
  ThreadPool pool(2);
  const graph::Attributes attributes = {{"p", 0.25}, {"key", int64_t{5}}};
  constexpr int64_t kSamples = 1000, kEach = 37;
  HostTensor x = PoisonedTensor({DType::kFloat32, {kSamples, kEach}});
  for (int64_t i = 0; i < kSamples * kEach; ++i) x.set(i, 3);
  HostTensor rng = PoisonedTensor({DType::kInt32, {2}});
  const int32_t seed_and_step[2] = {11, 12};
  for (int i : {0, 1}) rng.set(i, seed_and_step[i]);
  const std::vector<std::optional<HostTensor>> inputs = {x, rng};
  const auto y = *RunKernel({.op = graph::OpRegistry::Get().Require("drop_path"),
                             .attributes = attributes,
                             .inputs = inputs},
                            pool)[0];
  std::vector<uint32_t> words(kSamples);
  PhiloxStream(seed_and_step, 5).Words(0, kSamples, words.data());
  int64_t dropped = 0;
  for (int64_t b = 0; b < kSamples; ++b) {
    const bool drops = words[b] < 0x40000000u;
    dropped += drops;
    for (int64_t i = 0; i < kEach; ++i) {
      ASSERT_EQ(y.value(b * kEach + i), drops ? 0 : 4) << "sample " << b;
    }
  }
  // Six standard deviations of a binomial count: √(n p (1 − p)) = 13.7.
  EXPECT_NEAR(static_cast<double>(dropped), 0.25 * kSamples, 6 * 13.7);
}

// Over several chunks of the threaded loop: an element's draw depends on its index alone.
TEST(Dropout, DrawsHalvesOfTheWordsOfTheStream) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    constexpr int64_t kElements = 40001;
    const std::vector<bool> drops = Dropped({dtype, {kElements}}, {{"p", 0.1}});
    std::vector<uint32_t> words(kElements / 2 + 1);
    DropoutStream(kSeedAndStep, 5).Words(0, std::ssize(words), words.data());
    for (int64_t i = 0; i < kElements; ++i) {
      const uint32_t draw = i % 2 == 0 ? words[i / 2] & 0xFFFF : words[i / 2] >> 16;
      ASSERT_EQ(drops[i], draw < 6554) << "element " << i;
    }
  }
}

// [B,G,(H/G)·T,T]: row b·H + h has the T × T scores of query head h. Sequences of whole tiles, of
// less than one, and that end within one.
TEST(Dropout, DrawsForScoresAsAttentionDoes) {
  for (const int64_t sequence : {1, 5, 32, 70, 129}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
      SCOPED_TRACE(sequence);
      constexpr int64_t kBatch = 2, kKvHeads = 2, kGroup = 3;
      const std::vector<bool> drops = Dropped(
          {dtype, {kBatch, kKvHeads, kGroup * sequence, sequence}}, {{"p", 0.3}, {"scores", true}});
      const PhiloxStream stream = DropoutStream(kSeedAndStep, 5);
      for (int64_t i = 0; i < std::ssize(drops); ++i) {
        const int64_t row = i / sequence / sequence, query = i / sequence % sequence;
        const uint64_t draw = ScoreDraw(row, query, i % sequence, sequence);
        uint32_t word;
        stream.Words(draw / 2, 1, &word);
        ASSERT_EQ(drops[i], (word >> draw % 2 * 16 & 0xFFFF) < DropRule(0.3).threshold) << i;
      }
    }
  }
}

// Ranks that share rows, or columns, drop what one rank drops of the whole. Parts begin and end
// anywhere in a block of draws.
TEST(Dropout, ARanksPartIsDroppedAsInTheWhole) {
  for (const int64_t columns : {48, 42, 6}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
      constexpr int64_t kRows = 1203;
      const TestTensor x = NormalValues(dtype, {kRows, columns}, 3);
      const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
      graph::Attributes attributes{{"p", 0.3}, {"key", int64_t{5}}};
      const TestTensor whole = RunOp("dropout", {&x, &rng}, attributes)[0];
      attributes.Set("axis", std::string("tensor"));
      for (const bool by_columns : {false, true}) {
        attributes.Set("columns", by_columns);
        for (int rank = 0; rank < 3; ++rank) {
          const int64_t rows = by_columns ? kRows : kRows / 3;
          const int64_t width = by_columns ? columns / 3 : columns;
          TestTensor part({dtype, {rows, width}}), want({dtype, {rows, width}});
          for (int64_t i = 0; i < part.size(); ++i) {
            const int64_t at = by_columns ? i / width * columns + rank * width + i % width
                                          : rank * rows * columns + i;
            part.set(i, x.at(at));
            want.set(i, whole.at(at));
          }
          RankOfSeveral among(rank, 3);
          EXPECT_TRUE(SameBits(
              RunOp("dropout", {&part, &rng}, attributes, 2, {}, among.AlongTensor())[0], want))
              << graph::Name(dtype) << (by_columns ? " columns" : " rows") << " of " << columns
              << ", rank " << rank;
        }
      }
    }
  }
}

TEST(Dropout, RefusesScoresThatAreNoSquares) {
  EXPECT_THROW(Dropped({DType::kFloat32, {2, 5, 4}}, {{"p", 0.3}, {"scores", true}}),
               InternalError);
  EXPECT_THROW(Dropped({DType::kFloat32, {4}}, {{"p", 0.3}, {"scores", true}}), InternalError);
}

// In floats, 2^24 + 1 would be 2^24.
// Next to √2048 = 45.2548… are 45.25 and 45.5 in bf16, and 45.25 and 45.28125 in fp16.
TEST(Scale, RoundsItsFactorToTheTypeOfX) {
  const double factor = std::sqrt(2048.0);
  for (const auto& [dtype, rounded] : {std::pair{DType::kFloat64, factor},
                                       {DType::kFloat32, double{static_cast<float>(factor)}},
                                       {DType::kBFloat16, 45.25},
                                       {DType::kFloat16, 45.25}}) {
    const TestTensor x = Values(dtype, {3}, {1, 4, -0.5});
    const auto got = RunOp("scale", {&x}, {{"factor", factor}, {"rounded", true}});
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(got[0].at(i), x.at(i) * rounded) << graph::Name(dtype);
  }
  // 1 + 2^-8 is 1 in bf16.
  const TestTensor x = Values(DType::kBFloat16, {1}, {1.5});
  EXPECT_EQ(RunOp("scale", {&x}, {{"factor", 1.00390625}})[0].at(0), 1.5078125);
  EXPECT_EQ(RunOp("scale", {&x}, {{"factor", 1.00390625}, {"rounded", true}})[0].at(0), 1.5);
}

TEST(Add, CountsAsIntegersDo) {
  ThreadPool pool(2);
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const std::vector<int32_t> a = {1 << 24, kMost - 1, kMost, -1}, b = {1, 1, 1, -1},
                             sums = {(1 << 24) + 1, kMost, -kMost - 1, -2};
  HostTensor x = PoisonedTensor({DType::kInt32, {4}}), y = x;
  std::memcpy(x.bytes.data(), a.data(), x.bytes.size());
  std::memcpy(y.bytes.data(), b.data(), y.bytes.size());
  const std::vector<std::optional<HostTensor>> inputs = {x, y};
  const graph::Attributes none;
  const auto sum = *RunKernel(
      {.op = graph::OpRegistry::Get().Require("add"), .attributes = none, .inputs = inputs},
      pool)[0];
  EXPECT_EQ(std::memcmp(sum.bytes.data(), sums.data(), sum.bytes.size()), 0);
}

TEST(Dropout, OfNothingIsNoNode) {
  Program program;
  graph::Builder g(program);
  const Value x = g.Persistent("x", Role::kInput, {DType::kFloat32, {4}});
  const Value rng = g.Persistent("rng", Role::kInput, {DType::kInt32, {2}});
  EXPECT_EQ(Dropout(g, x, rng, 0), x);
  EXPECT_TRUE(program.nodes().empty());
}

float First(Vec<float> v) { return v[0]; }

TEST(Simd, ExpIsPreciseOverItsRange) {
  double worst = 0;
  for (double x = -87.2; x < 88.2; x += 0.00137) {
    const float argument = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(argument));
    worst = std::max(worst, std::fabs(First(Exp<float>(Splat<float>(argument))) / expected - 1));
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(First(Exp<float>(Splat<float>(0))), 1);
  EXPECT_TRUE(std::isnan(First(Exp<float>(Splat<float>(std::nanf(""))))));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_GT(First(Exp<float>(Splat<float>(infinity))), 1e38f);
  EXPECT_LT(First(Exp<float>(Splat<float>(-infinity))), 2e-38f);
}

TEST(Simd, NormalDistributionIsPreciseInBothTails) {
  double worst = 0;
  for (double x = -12; x < 12; x += 0.00037) {
    const float argument = static_cast<float>(x);
    const double expected = 0.5 * std::erfc(-static_cast<double>(argument) / std::sqrt(2.0));
    const Normal<float> normal = NormalDistribution<float>(Splat<float>(argument));
    const double error = std::fabs(First(normal.cdf) / expected - 1);
    // e^(−x²/2) inherits the rounding of its argument: x²/2 units of 2^-24.
    worst = std::max(worst, error / (1 + argument * argument / 2));
  }
  EXPECT_LT(worst, 5e-7);
}

// The last vector is partial at every length that is no multiple of 8; sums are exact here.
TEST(Simd, SumVectorsTakesEachElementOnce) {
  std::vector<float> ones(200, 1);
  for (int64_t n = 0; n <= 200; ++n) {
    EXPECT_EQ(
        SumVectors<float>(
            n, [&](int64_t i, auto count) { return Load<float>(ones.data() + i, count) + 0; }),
        static_cast<float>(n));
    // Terms that are not zero beyond the end must not count.
    EXPECT_EQ(SumVectors<float>(n, [&](int64_t, auto) { return Splat<float>(1); }),
              static_cast<float>(n));
  }
}

TEST(Embedding, RefusesATokenOutsideTheVocabulary) {
  ThreadPool pool(1);
  Program program;
  graph::Builder g(program);
  const Value tokens = g.Persistent("tokens", Role::kInput, {DType::kInt32, {1, 2}});
  const Value weight = g.Persistent("weight", Role::kParameter, {DType::kFloat32, {3, 4}});
  g.Emit1("embedding", {tokens, weight, graph::kNoTensor});
  Interpreter interpreter(program, pool);
  interpreter.Set("weight", std::vector<double>(12, 1));
  for (double bad : {3.0, -1.0}) {
    interpreter.Set("tokens", std::vector<double>{0, bad});
    EXPECT_THROW(interpreter.Run(), InternalError);
  }
  interpreter.Set("tokens", std::vector<double>{0, 2});
  EXPECT_NO_THROW(interpreter.Run());
}

}  // namespace
}  // namespace plimsoll::ops
