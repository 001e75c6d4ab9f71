// Convolutions against their formula written out in double.
#include "ops/convolution/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/convolution/conv_geometry.h"
#include "ops/definition.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;
using graph::Shape;

struct Case {
  Shape x, weight;
  ConvWindow window;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {{2, 9, 7, 3}, {5, 3, 3, 3}, {.pad = {0, 1, 1}}},
      {{2, 9, 7, 4}, {6, 3, 3, 4}, {.stride = {1, 2, 2}, .pad = {0, 1, 1}}},
      {{2, 8, 8, 4}, {6, 1, 1, 4}, {.stride = {1, 2, 2}}},
      {{1, 17, 16, 3}, {4, 7, 7, 3}, {.stride = {1, 2, 2}, .pad = {0, 3, 3}}},
      {{2, 11, 13, 4},
       {6, 3, 2, 2},
       {.stride = {1, 3, 1}, .pad = {0, 4, 1}, .dilation = {1, 2, 4}, .groups = 2}},
      {{2, 10, 9, 6}, {6, 3, 3, 1}, {.stride = {1, 2, 2}, .pad = {0, 1, 1}, .groups = 6}},
      {{1, 12, 12, 2}, {3, 2, 2, 2}, {.stride = {1, 5, 4}}},
      {{1, 9, 9, 2}, {3, 3, 3, 2}, {.stride = {1, 2, 3}, .pad = {0, 2, 2}, .dilation = {1, 4, 3}}},
      {{2, 4, 6, 5, 2},
       {3, 3, 2, 3, 2},
       {.stride = {2, 1, 2}, .pad = {1, 0, 1}, .dilation = {1, 2, 1}}},
  };
  return cases;
}

Attributes AttributesOf(const Case& c) {
  const char* const axes[3] = {"d", "h", "w"};
  Attributes attributes = {{"groups", c.window.groups}};
  for (size_t i = c.x.rank() == 5 ? 0 : 1; i < 3; ++i) {
    attributes.Set(std::string("stride_") + axes[i], c.window.stride[i]);
    attributes.Set(std::string("pad_") + axes[i], c.window.pad[i]);
    attributes.Set(std::string("dilation_") + axes[i], c.window.dilation[i]);
  }
  return attributes;
}

Attributes WithShape(Attributes attributes, const Shape& shape) {
  SetShape(attributes, shape);
  return attributes;
}

// Calls visit(y, x, weight) with the numbers of the elements of every product.
template <typename Visit>
void ForEachProduct(const ConvGeometry& g, const Visit& visit) {
  for (int64_t y = 0; y < g.rows_out() * g.out_channels; ++y) {
    const int64_t o = y % g.out_channels;
    int64_t at = y / g.out_channels;
    Spatial pixel;
    for (int i = 2; i >= 0; --i) {
      pixel[i] = at % g.out[i];
      at /= g.out[i];
    }
    for (int64_t tap = 0; tap < g.taps(); ++tap) {
      const Spatial k = {tap / (g.kernel[1] * g.kernel[2]), tap / g.kernel[2] % g.kernel[1],
                         tap % g.kernel[2]};
      int64_t row = at;
      bool inside = true;
      for (int i = 0; i < 3; ++i) {
        const int64_t p = pixel[i] * g.stride[i] - g.pad[i] + k[i] * g.dilation[i];
        inside = inside && p >= 0 && p < g.in[i];
        row = row * g.in[i] + p;
      }
      if (!inside) continue;
      for (int64_t i = 0; i < g.group_in(); ++i) {
        const int64_t channel = o / g.group_out() * g.group_in() + i;
        visit(y, row * g.in_channels + channel, (o * g.taps() + tap) * g.group_in() + i);
      }
    }
  }
}

TEST(Conv, IsItsFormula) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.x.ToString() + " * " + c.weight.ToString());
    const Attributes attributes = AttributesOf(c);
    const TestTensor x = NormalValues(DType::kFloat32, c.x, 1),
                     w = NormalValues(DType::kFloat32, c.weight, 2);
    const TestTensor bias = NormalValues(DType::kFloat32, {c.weight.dim(0)}, 3);
    const TestTensor y = RunOp("conv", {&x, &w, &bias}, attributes)[0];
    const TestTensor dy = NormalValues(DType::kFloat32, y.type().shape, 4);
    const TestTensor acc = NormalValues(DType::kFloat32, c.x, 5);
    const TestTensor dx = RunOp("conv_dx", {&dy, &w, &acc}, WithShape(attributes, c.x))[0];
    const TestTensor acc_weight = NormalValues(DType::kFloat32, c.weight, 6);
    const std::vector<TestTensor> dw =
        RunOp("conv_dw", {&x, &dy, &acc_weight, nullptr}, WithShape(attributes, c.weight));

    const graph::OpDef& op = graph::OpRegistry::Get().Require("conv");
    const ConvGeometry g = GeometryOf({op, {}, {}, attributes}, c.x, c.weight);
    std::vector<double> want_y(y.size()), want_dx(x.size()), want_dw(w.size()),
        want_db(bias.size());
    for (int64_t i = 0; i < y.size(); ++i) {
      want_y[i] = bias.at(i % bias.size());
      want_db[i % bias.size()] += dy.at(i);
    }
    for (int64_t i = 0; i < x.size(); ++i) want_dx[i] = acc.at(i);
    for (int64_t i = 0; i < w.size(); ++i) want_dw[i] = acc_weight.at(i);
    ForEachProduct(g, [&](int64_t to, int64_t from, int64_t weight) {
      want_y[to] += x.at(from) * w.at(weight);
      want_dx[from] += dy.at(to) * w.at(weight);
      want_dw[weight] += dy.at(to) * x.at(from);
    });
    ExpectNear(y, want_y, 1e-5, "y");
    ExpectNear(dx, want_dx, 1e-5, "dx");
    ExpectNear(dw[0], want_dw, 1e-5, "dw");
    ExpectNear(dw[1], want_db, 1e-5, "db");
  }
}

// More pixels than one block of columns holds.
TEST(Conv, LargeImagesAreComputedInBlocks) {
  const Case c{{2, 96, 90, 16}, {8, 5, 5, 16}, {.pad = {0, 2, 2}}};
  const TestTensor x = NormalValues(DType::kFloat64, c.x, 1),
                   w = NormalValues(DType::kFloat64, c.weight, 2);
  const TestTensor y = RunOp("conv", {&x, &w, nullptr}, AttributesOf(c))[0];
  // One image after another, and by linearity: Σ y·dy = Σ x·dx = Σ w·dw.
  const TestTensor dy = NormalValues(DType::kFloat64, y.type().shape, 3);
  const TestTensor dx = RunOp("conv_dx", {&dy, &w, nullptr}, WithShape(AttributesOf(c), c.x))[0];
  const TestTensor dw =
      RunOp("conv_dw", {&x, &dy, nullptr, nullptr}, WithShape(AttributesOf(c), c.weight))[0];
  const auto dot = [](const TestTensor& a, const TestTensor& b) {
    double sum = 0;
    for (int64_t i = 0; i < a.size(); ++i) sum += a.at(i) * b.at(i);
    return sum;
  };
  EXPECT_NEAR(dot(x, dx), dot(y, dy), 1e-7 * std::abs(dot(y, dy)));
  EXPECT_NEAR(dot(w, dw), dot(y, dy), 1e-7 * std::abs(dot(y, dy)));
  TestTensor second({DType::kFloat64, {1, 96, 90, 16}});
  for (int64_t i = 0; i < second.size(); ++i) second.set(i, x.at(second.size() + i));
  const TestTensor alone = RunOp("conv", {&second, &w, nullptr}, AttributesOf(c))[0];
  for (int64_t i = 0; i < alone.size(); ++i) ASSERT_EQ(alone.at(i), y.at(alone.size() + i));
}

TEST(Conv, RefusesWhatDoesNotFit) {
  const auto error = [](const Shape& x, const Shape& weight, const ConvWindow& window = {}) {
    graph::Program program;
    graph::Builder g(program);
    return MessageOf<InternalError>([&] {
             Conv(g, g.Persistent("x", graph::Role::kInput, {DType::kFloat32, x}),
                  g.Persistent("w", graph::Role::kParameter, {DType::kFloat32, weight}),
                  graph::kNoTensor, window);
           })
        .value_or("none");
  };
  const Shape x = {1, 8, 8, 4};
  EXPECT_EQ(error(x, {2, 3, 3, 4}), "none");
  EXPECT_NE(error({8, 8, 4}, {2, 3, 4}).find("needs x[B,H,W,I]"), std::string::npos);
  EXPECT_NE(error(x, {2, 3, 3, 3}).find("weight's last dimension"), std::string::npos);
  EXPECT_NE(error(x, {2, 3, 3, 4}, {.groups = 3}).find("groups"), std::string::npos);
  EXPECT_NE(error(x, {2, 9, 3, 4}).find("the kernel is larger"), std::string::npos);
  EXPECT_NE(error(x, {2, 3, 3, 4}, {.dilation = {1, 4, 1}}).find("the kernel is larger"),
            std::string::npos);
  EXPECT_NE(error(x, {2, 3, 3, 4}, {.stride = {1, 0, 1}}).find("too small"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::ops
