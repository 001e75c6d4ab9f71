// Ops compared with PyTorch: activations, norms of rows, pooling, optimizers. The other files
// op_golden_*_test.cc have their own subjects.
#include "tests/ops/op_golden.h"

#include <gtest/gtest.h>

#include "ops/pooling/pool_window.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

TEST_P(GoldenTest, LayerNorm) {
  Golden golden = Read("layer_norm");
  const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]);
  const Outputs forward = Call("layer_norm", {{"eps", 1e-5}}, {x, weight, Make(golden["bias"])});
  ExpectNear(forward[0], golden["y"]);
  const std::optional<HostTensor> none;
  const Outputs backward =
      Call("layer_norm_backward", {},
           {x, weight, forward[1], forward[2], Make(golden["dy"]), none, none, none});
  ExpectNear(backward[0], golden["dx"]);
  ExpectNear(backward[1], golden["dweight"]);
  ExpectNear(backward[2], golden["dbias"]);
}

// The ops that ops::GroupNorm emits, and their gradients.
TEST_P(GoldenTest, GroupNorm) {
  Golden golden = Read("group_norm");
  const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]);
  const Attributes eps = {{"eps", 1e-5}}, groups = {{"groups", 3}};
  const Outputs channels = Call("batch_norm_statistics", {{"groups", 2}}, {x});
  const Outputs merged = Call("merge_channel_statistics", groups, {channels[0], channels[1]});
  const Outputs forward =
      Call("batch_norm", eps, {x, merged[0], merged[1], weight, Make(golden["bias"])});
  ExpectNear(forward[0], golden["y"]);
  const std::optional<HostTensor> none;
  const Outputs of_norm =
      Call("batch_norm_backward", eps,
           {Make(golden["dy"]), x, merged[0], merged[1], weight, none, none, none});
  ExpectNear(of_norm[3], golden["dweight"]);
  ExpectNear(of_norm[4], golden["dbias"]);
  const Outputs of_merging = Call("merge_channel_statistics_backward", groups,
                                  {channels[0], merged[0], of_norm[1], of_norm[2]});
  const Outputs of_statistics = Call("batch_norm_statistics_backward", {},
                                     {x, channels[0], of_merging[0], of_merging[1], of_norm[0]});
  ExpectNear(of_statistics[0], golden["dx"]);
}

TEST_P(GoldenTest, RmsNorm) {
  Golden golden = Read("rms_norm");
  const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]);
  const Outputs forward = Call("rms_norm", {{"eps", 1e-5}}, {x, weight});
  ExpectNear(forward[0], golden["y"]);
  const std::optional<HostTensor> none;
  const Outputs backward =
      Call("rms_norm_backward", {}, {x, weight, forward[1], Make(golden["dy"]), none, none});
  ExpectNear(backward[0], golden["dx"]);
  ExpectNear(backward[1], golden["dweight"]);
}

// As Gemma's norm, whose weight has 1 added to it.
TEST_P(GoldenTest, RmsNormWithUnitOffset) {
  Golden golden = Read("rms_norm_unit_offset");
  const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]);
  const Outputs forward = Call("rms_norm", {{"eps", 1e-6}, {"unit_offset", true}}, {x, weight});
  ExpectNear(forward[0], golden["y"]);
  const std::optional<HostTensor> none;
  const Outputs backward = Call("rms_norm_backward", {{"unit_offset", true}},
                                {x, weight, forward[1], Make(golden["dy"]), none, none});
  ExpectNear(backward[0], golden["dx"]);
  ExpectNear(backward[1], golden["dweight"]);
}

TEST_P(GoldenTest, GeluTanh) {
  CheckUnary("gelu_tanh", "gelu", {{"approximate", std::string("tanh")}});
}
TEST_P(GoldenTest, GeluExact) {
  CheckUnary("gelu_none", "gelu", {{"approximate", std::string("none")}});
}
TEST_P(GoldenTest, Silu) { CheckUnary("silu", "silu", {}); }
TEST_P(GoldenTest, Relu) { CheckByResult("relu"); }
TEST_P(GoldenTest, LeakyRelu) { CheckByResult("leaky_relu", {{"slope", 0.01}}); }
TEST_P(GoldenTest, Sigmoid) { CheckByResult("sigmoid"); }
TEST_P(GoldenTest, Tanh) { CheckByResult("tanh"); }
TEST_P(GoldenTest, Swiglu) { CheckUnary("swiglu", "swiglu", {}); }
TEST_P(GoldenTest, Geglu) { CheckUnary("geglu", "geglu", {}); }
TEST_P(GoldenTest, Softcap) { CheckUnary("softcap", "softcap", {{"cap", 1.5}}); }

const Attributes kPoolWindow = ToAttributes(
    {.kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 1, .pad_h = 1, .pad_w = 1});

TEST_P(GoldenTest, MaxPool2d) {
  Golden golden = Read("max_pool2d");
  const HostTensor x = Make(golden["x"]);
  const Outputs forward = Call("max_pool2d", kPoolWindow, {x});
  ExpectNear(forward[0], golden["y"]);
  ExpectNear(forward[1], golden["index"]);
  ExpectNear(Call("max_pool2d_backward", WithImageSize(kPoolWindow, x.type.shape),
                  {Make(golden["dy"]), forward[1]})[0],
             golden["dx"]);
}

TEST_P(GoldenTest, AvgPool2d) {
  for (bool count_include_pad : {true, false}) {
    Golden golden = Read(count_include_pad ? "avg_pool2d" : "avg_pool2d_without_padding");
    const HostTensor x = Make(golden["x"]);
    Attributes attributes = kPoolWindow;
    attributes.Set("count_include_pad", count_include_pad);
    ExpectNear(Call("avg_pool2d", attributes, {x})[0], golden["y"]);
    ExpectNear(Call("avg_pool2d_backward", WithImageSize(attributes, x.type.shape),
                    {Make(golden["dy"])})[0],
               golden["dx"]);
  }
}

TEST_P(GoldenTest, GlobalAvgPool) {
  Golden golden = Read("global_avg_pool");
  const HostTensor x = Make(golden["x"]);
  ExpectNear(Call("global_avg_pool", {}, {x})[0], golden["y"]);
  ExpectNear(
      Call("global_avg_pool_backward", {{"h", x.type.shape.dim(1)}, {"w", x.type.shape.dim(2)}},
           {Make(golden["dy"])})[0],
      golden["dx"]);
}

constexpr double kLr = 3e-3;
constexpr int kSteps = 5;

std::string Step(const char* name, int step) {
  return name + std::string(".") + std::to_string(step);
}

TEST_P(GoldenTest, AdamW) {
  Golden golden = Read("adamw");
  const Attributes attributes = {
      {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};
  HostTensor p = Make(golden["p.0"]), m = p, v = p;
  for (int64_t i = 0; i < p.type.shape.elements(); ++i) {
    m.set(i, 0);
    v.set(i, 0);
  }
  std::optional<HostTensor> count = Scalar(DType::kInt32, 0);
  const HostTensor lr = Scalar(DType::kFloat32, kLr);
  for (int step = 1; step <= kSteps; ++step) {
    count = Call("increment", {}, {count})[0];
    const Outputs updated = Call("adamw", attributes,
                                 {p, Make(golden[Step("g", step)]), m, v, lr, count, std::nullopt});
    p = *updated[0];
    m = *updated[1];
    v = *updated[2];
    ExpectNear(p, golden[Step("p", step)]);
    ExpectNear(m, golden[Step("m", step)]);
    ExpectNear(v, golden[Step("v", step)]);
  }
}

TEST_P(GoldenTest, Sgd) {
  for (bool nesterov : {false, true}) {
    Golden golden = Read(nesterov ? "sgd_nesterov" : "sgd");
    const Attributes attributes = {
        {"momentum", 0.9}, {"nesterov", nesterov}, {"weight_decay", 0.1}};
    HostTensor p = Make(golden["p.0"]), momentum = p;
    for (int64_t i = 0; i < p.type.shape.elements(); ++i) momentum.set(i, 0);
    const HostTensor lr = Scalar(DType::kFloat32, kLr);
    for (int step = 1; step <= kSteps; ++step) {
      const Outputs updated =
          Call("sgd", attributes, {p, Make(golden[Step("g", step)]), momentum, lr, std::nullopt});
      p = *updated[0];
      momentum = *updated[1];
      ExpectNear(p, golden[Step("p", step)]);
      ExpectNear(momentum, golden[Step("momentum", step)]);
    }
  }
}

TEST_P(GoldenTest, WeightAverage) {
  for (const bool warmup : {false, true}) {
    Golden golden = Read(warmup ? "weight_average_warmup" : "weight_average");
    const Attributes attributes = {{"decay", warmup ? 0.3 : 0.9}, {"warmup", warmup}};
    HostTensor average = Make(golden["p.5"]);  // of no matter: the first update copies
    for (int step = 1; step <= kSteps; ++step) {
      const HostTensor p = Make(golden[Step("p", step)]);
      average = *Call("weight_average", attributes,
                      {average, p, Scalar(DType::kInt32, static_cast<double>(step))})[0];
      ExpectNear(average, golden[Step("average", step)]);
    }
  }
}

TEST_P(GoldenTest, ClippedGradientNorm) {
  Golden golden = Read("clip");
  const HostTensor a = Make(golden["g.0"]), b = Make(golden["g.1"]);
  const std::optional<HostTensor> norm = Call("global_norm", {}, {a, b})[0];
  // The norm and the factor are float in either case.
  ASSERT_TRUE(norm);
  const double expected = golden["norm"].values[0];
  EXPECT_NEAR(norm->value(0), expected, 1e-6 * expected);
  const std::optional<HostTensor> factor = Call("clip_factor", {{"max_norm", 1.0}}, {norm})[0];
  const Outputs clipped = Call("scale_by", {}, {a, factor});
  for (size_t i = 0; i < golden["clipped.0"].values.size(); ++i) {
    EXPECT_NEAR(clipped[0]->value(i), golden["clipped.0"].values[i], 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, GoldenTest, testing::Values(DType::kFloat32, DType::kFloat64),
                         [](const auto& info) { return std::string(graph::Name(info.param)); });

}  // namespace
}  // namespace plimsoll::ops
