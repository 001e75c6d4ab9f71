#include "ops/convolution/pad_channels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "graph/verifier.h"
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
  EXPECT_EQ(result.summary, "1 convolution");
  ExpectProgram(program, R"(program p
  tensor %x: f16[2,5,5,3] input persistent
  tensor %w: f16[4,3,3,3] parameter persistent
forward
  %stem.padded: f16[2,5,5,8] = subsample(%x) {channels=8, stride=1} @stem !pad_channels
  %stem.padded_weight: f16[4,3,3,8] = subsample(%w) {channels=8, stride=1} @stem !pad_channels
  %y: f16[2,5,5,4] metric = conv(%stem.padded, %stem.padded_weight) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=1, stride_w=1} @stem
)");
}

// The stem of a ResNet, 7 × 7 with a stride of 2, and a bias.
TEST(PadChannels, GivesAStemWithAStrideBlocksOfPixels) {
  graph::Program program = Parse(R"(program p
  tensor %x: bf16[2,5,8,3] input persistent
  tensor %w: bf16[4,7,7,3] parameter persistent
  tensor %b: bf16[4] parameter persistent
forward
  %y: bf16[2,3,4,4] metric = conv(%x, %w, %b) {dilation_h=1, dilation_w=1, groups=1, pad_h=3, pad_w=3, stride_h=2, stride_w=2} @stem
)");
  const graph::PassResult result = PadChannels().Run(program);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.summary, "1 convolution");
  ExpectProgram(program, R"(program p
  tensor %x: bf16[2,5,8,3] input persistent
  tensor %w: bf16[4,7,7,3] parameter persistent
  tensor %b: bf16[4] parameter persistent
forward
  %stem.padded: bf16[2,6,7,16] = space_to_depth(%x) {block=2, channels=16, height=6, pad_h=3, pad_w=3, width=7} @stem !pad_channels
  %stem.padded_weight: bf16[4,4,4,16] = space_to_depth(%w) {block=2, channels=16, height=4, pad_h=0, pad_w=0, width=4} @stem !pad_channels
  %y: bf16[2,3,4,4] metric = conv(%stem.padded, %stem.padded_weight, %b) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=1, stride_w=1} @stem
)");
}

// In TF32 a pixel of whole 16 bytes has 4 channels, so that blocks need no zeros.
TEST(PadChannels, FillsBlocksUpToWhole16Bytes) {
  graph::Program program = Parse(R"(program p
  tensor %x: f32[2,8,8,3] input persistent
  tensor %w: f32[4,4,4,3] parameter persistent
  tensor %u: f16[2,8,6,1] input persistent
  tensor %v: f16[4,4,3,1] parameter persistent
forward
  %y: f32[2,4,4,4] metric = conv(%x, %w) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=2, stride_w=2, tf32=true}
  %z: f16[2,4,2,4] metric = conv(%u, %v) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=0, stride_h=2, stride_w=2}
)");
  EXPECT_EQ(PadChannels().Run(program).summary, "2 convolutions");
  ExpectProgram(program, R"(program p
  tensor %x: f32[2,8,8,3] input persistent
  tensor %w: f32[4,4,4,3] parameter persistent
  tensor %u: f16[2,8,6,1] input persistent
  tensor %v: f16[4,4,3,1] parameter persistent
forward
  %padded: f32[2,5,5,12] = space_to_depth(%x) {block=2, channels=12, height=5, pad_h=1, pad_w=1, width=5} !pad_channels
  %padded_weight: f32[4,2,2,12] = space_to_depth(%w) {block=2, channels=12, height=2, pad_h=0, pad_w=0, width=2} !pad_channels
  %y: f32[2,4,4,4] metric = conv(%padded, %padded_weight) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=1, stride_w=1, tf32=true}
  %padded.2: f16[2,5,3,8] = space_to_depth(%u) {block=2, channels=8, height=5, pad_h=1, pad_w=0, width=3} !pad_channels
  %padded_weight.2: f16[4,2,2,8] = space_to_depth(%v) {block=2, channels=8, height=2, pad_h=0, pad_w=0, width=2} !pad_channels
  %z: f16[2,4,2,4] metric = conv(%padded.2, %padded_weight.2) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=1, stride_w=1}
)");
}

// Two images by one weight; an image by one window twice, and by another window.
TEST(PadChannels, MakesEachTensorOnce) {
  graph::Program program = Parse(R"(program p
  tensor %x: f16[2,8,8,3] input persistent
  tensor %u: f16[1,8,8,3] input persistent
  tensor %w: f16[4,4,4,3] parameter persistent
forward
  %a: f16[2,4,4,4] metric = conv(%x, %w) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=2, stride_w=2}
  %b: f16[1,4,4,4] metric = conv(%u, %w) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=2, stride_w=2}
  %c: f16[2,4,4,4] metric = conv(%x, %w) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=2, stride_w=2}
  %d: f16[2,3,3,4] metric = conv(%x, %w) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=2, stride_w=2}
)");
  EXPECT_EQ(PadChannels().Run(program).summary, "4 convolutions");
  ExpectProgram(program, R"(program p
  tensor %x: f16[2,8,8,3] input persistent
  tensor %u: f16[1,8,8,3] input persistent
  tensor %w: f16[4,4,4,3] parameter persistent
forward
  %padded: f16[2,5,5,16] = space_to_depth(%x) {block=2, channels=16, height=5, pad_h=1, pad_w=1, width=5} !pad_channels
  %padded_weight: f16[4,2,2,16] = space_to_depth(%w) {block=2, channels=16, height=2, pad_h=0, pad_w=0, width=2} !pad_channels
  %a: f16[2,4,4,4] metric = conv(%padded, %padded_weight) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=1, stride_w=1}
  %padded.2: f16[1,5,5,16] = space_to_depth(%u) {block=2, channels=16, height=5, pad_h=1, pad_w=1, width=5} !pad_channels
  %b: f16[1,4,4,4] metric = conv(%padded.2, %padded_weight) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=1, stride_w=1}
  %c: f16[2,4,4,4] metric = conv(%padded, %padded_weight) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=1, stride_w=1}
  %padded.3: f16[2,4,4,16] = space_to_depth(%x) {block=2, channels=16, height=4, pad_h=0, pad_w=0, width=4} !pad_channels
  %d: f16[2,3,3,4] metric = conv(%padded.3, %padded_weight) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=1, stride_w=1}
)");
}

// Another stride along each dimension, dilation, a kernel of one row, and images of 5 channels.
TEST(PadChannels, GivesZerosToWhatFitsNoBlocks) {
  graph::Program program = Parse(R"(program p
  tensor %x: f16[2,8,8,3] input persistent
  tensor %w: f16[4,3,3,3] parameter persistent
  tensor %row: f16[4,1,3,3] parameter persistent
  tensor %five: f16[2,8,8,5] input persistent
  tensor %v: f16[4,3,3,5] parameter persistent
forward
  %a: f16[2,3,6,4] metric = conv(%x, %w) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=2, stride_w=1}
  %b: f16[2,3,2,4] metric = conv(%x, %w) {dilation_h=1, dilation_w=2, groups=1, pad_h=0, pad_w=0, stride_h=2, stride_w=2}
  %c: f16[2,4,3,4] metric = conv(%x, %row) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=2, stride_w=2}
  %d: f16[2,3,3,4] metric = conv(%five, %v) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=2, stride_w=2}
)");
  EXPECT_EQ(PadChannels().Run(program).summary, "4 convolutions");
  ExpectProgram(program, R"(program p
  tensor %x: f16[2,8,8,3] input persistent
  tensor %w: f16[4,3,3,3] parameter persistent
  tensor %row: f16[4,1,3,3] parameter persistent
  tensor %five: f16[2,8,8,5] input persistent
  tensor %v: f16[4,3,3,5] parameter persistent
forward
  %padded: f16[2,8,8,8] = subsample(%x) {channels=8, stride=1} !pad_channels
  %padded_weight: f16[4,3,3,8] = subsample(%w) {channels=8, stride=1} !pad_channels
  %a: f16[2,3,6,4] metric = conv(%padded, %padded_weight) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=2, stride_w=1}
  %b: f16[2,3,2,4] metric = conv(%padded, %padded_weight) {dilation_h=1, dilation_w=2, groups=1, pad_h=0, pad_w=0, stride_h=2, stride_w=2}
  %padded_weight.2: f16[4,1,3,8] = subsample(%row) {channels=8, stride=1} !pad_channels
  %c: f16[2,4,3,4] metric = conv(%padded, %padded_weight.2) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=2, stride_w=2}
  %padded.2: f16[2,8,8,8] = subsample(%five) {channels=8, stride=1} !pad_channels
  %padded_weight.3: f16[4,3,3,8] = subsample(%v) {channels=8, stride=1} !pad_channels
  %d: f16[2,3,3,4] metric = conv(%padded.2, %padded_weight.3) {dilation_h=1, dilation_w=1, groups=1, pad_h=0, pad_w=0, stride_h=2, stride_w=2}
)");
}

// In float32 without TF32 and in float64 there is nothing to gain; groups have channels of their
// own.
TEST(PadChannels, LeavesOthersAlone) {
  constexpr std::string_view kText = R"(program p
  tensor %x: f32[2,5,5,3] input persistent
  tensor %w: f32[3,3,3,3] parameter persistent
  tensor %s: bf16[2,5,5,2] input persistent
  tensor %t: bf16[2,3,3,1] parameter persistent
  tensor %p: f64[2,5,5,3] input persistent
  tensor %q: f64[3,3,3,3] parameter persistent
  tensor %u: bf16[2,5,5,8] input persistent
  tensor %v: bf16[8,3,3,1] parameter persistent
forward
  %y: f32[2,5,5,3] metric = conv(%x, %w) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=1, stride_w=1}
  %z: bf16[2,5,5,8] metric = conv(%u, %v) {dilation_h=1, dilation_w=1, groups=8, pad_h=1, pad_w=1, stride_h=1, stride_w=1}
  %y2: f32[2,3,3,3] metric = conv(%x, %w) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=2, stride_w=2}
  %z2: bf16[2,3,3,2] metric = conv(%s, %t) {dilation_h=1, dilation_w=1, groups=2, pad_h=1, pad_w=1, stride_h=2, stride_w=2}
  %p2: f64[2,3,3,3] metric = conv(%p, %q) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, pad_w=1, stride_h=2, stride_w=2}
)";
  graph::Program program = Parse(kText);
  EXPECT_FALSE(PadChannels().Run(program).changed);
  ExpectProgram(program, kText);
}

struct Problem {
  graph::Shape x, weight;
  ConvWindow window;
  DType dtype = DType::kFloat32;  // with TF32, which a CPU computes as float32

  std::string ToString() const {
    return std::string(graph::Name(dtype)) + x.ToString() + " by " + weight.ToString() + " pad " +
           graph::Shape({window.pad[1], window.pad[2]}).ToString();
  }
};

// The loss, and the gradients of the images and of the weight, in the shapes that they have without
// the pass. The weight convolves the images and their doubles, so that its gradients add up.
std::vector<std::vector<double>> Gradients(const Problem& problem, bool padded) {
  graph::Program program("stem");
  graph::Builder g(program);
  const Value x = Scale(g, g.Persistent("x", Role::kParameter, {problem.dtype, problem.x}), 0.5);
  const Value weight = g.Persistent("weight", Role::kParameter, {problem.dtype, problem.weight});
  const Value bias =
      g.Persistent("bias", Role::kParameter, {problem.dtype, {problem.weight.dim(0)}});
  const Value y = Conv(g, x, weight, bias, problem.window);
  const Value z = Conv(g, Scale(g, x, 2), weight, graph::kNoTensor, problem.window);
  Add(g, Sum(g, Mul(g, y, z)), Sum(g, Mul(g, y, y)), "loss");
  for (graph::Node& node : program.mutable_nodes()) {
    if (node.op->name == "conv" && problem.dtype == DType::kFloat32) {
      node.attributes.Set("tf32", true);
    }
  }
  EXPECT_EQ(padded && PadChannels().Run(program).changed, padded);
  graph::Autodiff({.loss = "loss"}).Run(program);
  graph::Verify(program);
  ThreadPool pool(2);
  Interpreter run(program, pool);
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const char* name : {"x", "weight", "bias"}) {
    std::vector<double> values(
        static_cast<size_t>(program.tensor(program.Require(name)).type.shape.elements()));
    for (double& value : values) value = normal(random);
    run.Set(name, values);
  }
  run.Run();
  return {run.Get("loss"), run.Get("x.grad"), run.Get("weight.grad"), run.Get("bias.grad")};
}

void ExpectTheSameGradients(const Problem& problem, double tolerance) {
  SCOPED_TRACE(problem.ToString());
  const auto before = Gradients(problem, false), after = Gradients(problem, true);
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_EQ(after[i].size(), before[i].size());
    double largest = 1;
    for (const double value : before[i]) largest = std::max(largest, std::abs(value));
    for (size_t k = 0; k < before[i].size(); ++k) {
      ASSERT_NEAR(after[i][k], before[i][k], tolerance * largest) << "of result " << i << ", " << k;
    }
  }
}

TEST(PadChannels, AddsNothingButZeros) {
  const ConvWindow window{.stride = {1, 2, 1}, .pad = {1, 1, 1}};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const double tolerance = dtype == DType::kFloat32 ? 1e-5 : 0.02;
    ExpectTheSameGradients({{2, 6, 5, 3}, {4, 3, 3, 3}, window, dtype}, tolerance);
    ExpectTheSameGradients({{2, 3, 4, 5, 3}, {4, 2, 3, 3, 3}, window, dtype}, tolerance);
  }
}

// Every kernel with every padding, along one dimension; along the other one, what comes last comes
// first. Odd and even sizes: some have a last row that no kernel meets.
TEST(PadChannels, BlocksOfPixelsGiveTheSameSums) {
  const std::vector<int64_t> kernels = {2, 3, 4, 7}, pads = {0, 1, 2, 3};
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (size_t p = 0; p < pads.size(); ++p) {
      for (const int64_t height : {7, 10}) {
        const int64_t channels = 1 + static_cast<int64_t>(k + p) % 4;
        const ConvWindow window{.stride = {1, 2, 2}, .pad = {0, pads[p], pads[3 - p]}};
        ExpectTheSameGradients(
            {{2, height, height + 1, channels}, {3, kernels[k], kernels[3 - k], channels}, window},
            1e-5);
      }
    }
  }
}

TEST(PadChannels, BlocksOfPixelsGiveTheSameSumsIn16Bits) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const ConvWindow window{.stride = {1, 2, 2}, .pad = {0, 3, 3}};
    ExpectTheSameGradients({{2, 9, 12, 3}, {4, 7, 7, 3}, window, dtype}, 0.02);
  }
}

}  // namespace
}  // namespace plimsoll::ops
