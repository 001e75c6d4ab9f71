#include "ops/convolution/pad_channels.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "ops/convolution/conv.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/reductions/reduce.h"
#include "tests/graph/expect_program.h"
#include "tests/ops/interpreter.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::ExpectProgram;
using graph::Parse;
using graph::Role;
using graph::Value;

TEST(PadChannels, GivesAStemWholePixels) {
  graph::Program program = Parse(R"(program p
  tensor %x: f16[2,5,5,3] input persistent
  tensor %w: f16[4,3,3,3] parameter persistent
forward
  %y: f16[2,5,5,4] metric = conv(%x, %w) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=1, stride_w=1} @stem
)");
  const graph::PassResult result = PadChannels().Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "1 convolutions");
  ExpectProgram(program, R"(program p
  tensor %x: f16[2,5,5,3] input persistent
  tensor %w: f16[4,3,3,3] parameter persistent
forward
  %stem.padded: f16[2,5,5,8] = subsample(%x) {channels=8, stride=1} @stem !pad_channels
  %stem.padded_weight: f16[4,3,3,8] = subsample(%w) {channels=8, stride=1} @stem !pad_channels
  %y: f16[2,5,5,4] metric = conv(%stem.padded, %stem.padded_weight) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=1, stride_w=1} @stem
)");
}

// In float32 without TF32 there is nothing to gain; groups have channels of their own.
TEST(PadChannels, LeavesOthersAlone) {
  constexpr std::string_view kText = R"(program p
  tensor %x: f32[2,5,5,3] input persistent
  tensor %w: f32[3,3,3,3] parameter persistent
  tensor %u: bf16[2,5,5,8] input persistent
  tensor %v: bf16[8,3,3,1] parameter persistent
forward
  %y: f32[2,5,5,3] metric = conv(%x, %w) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=1, stride_w=1}
  %z: bf16[2,5,5,8] metric = conv(%u, %v) {dilation_h=1, dilation_w=1, groups=8, pad_h=1, pad_w=1, stride_h=1, stride_w=1}
)";
  graph::Program program = Parse(kText);
  EXPECT_FALSE(PadChannels().Run(program).changed);
  ExpectProgram(program, kText);
}

// y and the gradients of the image's mean and of the weight, which have the shapes they had.
std::vector<std::vector<double>> Gradients(bool volume, bool padded) {
  const graph::Shape image = volume ? graph::Shape{2, 3, 4, 5, 3} : graph::Shape{2, 6, 5, 3};
  const graph::Shape kernel = volume ? graph::Shape{4, 2, 3, 3, 3} : graph::Shape{4, 3, 3, 3};
  graph::Program program("stem");
  graph::Builder g(program);
  const Value x = Scale(g, g.Persistent("x", Role::kParameter, {DType::kBFloat16, image}), 2);
  const Value weight = g.Persistent("weight", Role::kParameter, {DType::kBFloat16, kernel});
  const Value y = Conv(g, x, weight, graph::kNoTensor, {.stride = {1, 2, 1}, .pad = {1, 1, 1}});
  Add(g, Sum(g, Mul(g, y, y)), Sum(g, y), "loss");
  EXPECT_EQ(padded && PadChannels().Run(program).changed, padded);
  graph::Autodiff({.loss = "loss"}).Run(program);
  ThreadPool pool(2);
  Interpreter run(program, pool);
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const char* name : {"x", "weight"}) {
    std::vector<double> values(
        static_cast<size_t>(program.tensor(program.Require(name)).type.shape.elements()));
    for (double& value : values) value = normal(random);
    run.Set(name, values);
  }
  run.Run();
  return {run.Get("loss"), run.Get("x.grad"), run.Get("weight.grad")};
}

TEST(PadChannels, AddsNothingButZeros) {
  for (const bool volume : {false, true}) {
    const auto before = Gradients(volume, false), after = Gradients(volume, true);
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(after[i].size(), before[i].size());
      for (size_t k = 0; k < before[i].size(); ++k) {
        EXPECT_NEAR(after[i][k], before[i][k], 0.02 * (1 + std::abs(before[i][k])));
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
