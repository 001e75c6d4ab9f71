// Space-to-depth against loops that follow its definition, in every type, and against ONNX; shapes
// that do not fit.
#include "ops/data_movement/space_to_depth.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "ops/definition.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;
using graph::Shape;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};

struct Case {
  Shape x;
  DepthBlocks blocks;

  Shape y() const { return {x.dim(0), blocks.size[0], blocks.size[1], blocks.channels}; }
  Attributes forward() const {
    Attributes attributes = backward();
    attributes = Select(attributes, {"block", "pad_h", "pad_w"});
    attributes.Set("height", blocks.size[0]);
    attributes.Set("width", blocks.size[1]);
    attributes.Set("channels", blocks.channels);
    return attributes;
  }
  Attributes backward() const {
    Attributes attributes = {
        {"block", blocks.block}, {"pad_h", blocks.pad[0]}, {"pad_w", blocks.pad[1]}};
    SetShape(attributes, x);
    return attributes;
  }
  std::string ToString() const {
    return x.ToString() + " to " + y().ToString() + " in blocks of " +
           std::to_string(blocks.block) + " from " +
           Shape({blocks.pad[0], blocks.pad[1]}).ToString();
  }
};

std::vector<Case> Cases() {
  return {
      {{2, 7, 6, 3}, {.pad = {3, 3}, .size = {6, 5}, .channels = 16}},  // zeros on all sides
      {{2, 7, 6, 3}, {.pad = {1, 2}, .size = {4, 6}, .channels = 12}},
      {{2, 5, 6, 1}, {.pad = {1, 0}, .size = {4, 3}, .channels = 8}},
      {{2, 9, 8, 2}, {.pad = {0, 0}, .size = {2, 3}, .channels = 8}},  // pixels that no block has
      {{1, 4, 5, 5}, {.pad = {2, 1}, .size = {3, 4}, .channels = 23}},
      {{2, 8, 7, 2}, {.block = 3, .pad = {4, 2}, .size = {4, 3}, .channels = 20}},
      {{2, 3, 4, 5}, {.block = 1, .pad = {1, 0}, .size = {5, 3}, .channels = 7}},
      {{1, 1, 1, 3}, {.pad = {5, 4}, .size = {2, 2}, .channels = 12}},  // nothing but zeros
      {{0, 4, 4, 3}, {.size = {2, 2}, .channels = 12}},
      {{2, 0, 4, 3}, {.pad = {1, 0}, .size = {1, 2}, .channels = 12}},
  };
}

// For each element of y the element of x that it is, -1: zero.
std::vector<int64_t> Sources(const Case& c) {
  const auto& [x, blocks] = c;
  std::vector<int64_t> sources;
  for (int64_t b = 0; b < x.dim(0); ++b) {
    for (int64_t i = 0; i < blocks.size[0]; ++i) {
      for (int64_t j = 0; j < blocks.size[1]; ++j) {
        for (int64_t channel = 0; channel < blocks.channels; ++channel) {
          const int64_t pixel = channel / x.dim(3), c_x = channel % x.dim(3);
          const int64_t row = i * blocks.block - blocks.pad[0] + pixel / blocks.block;
          const int64_t column = j * blocks.block - blocks.pad[1] + pixel % blocks.block;
          const bool zero = pixel >= blocks.block * blocks.block || row < 0 || row >= x.dim(1) ||
                            column < 0 || column >= x.dim(2);
          sources.push_back(zero ? -1
                                 : ((b * x.dim(1) + row) * x.dim(2) + column) * x.dim(3) + c_x);
        }
      }
    }
  }
  return sources;
}

std::vector<double> Read(const TestTensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(tensor.at(i));
  return values;
}

TEST(SpaceToDepth, FollowsItsDefinition) {
  for (const Case& c : Cases()) {
    const std::vector<int64_t> sources = Sources(c);
    for (const DType dtype : kTypes) {
      SCOPED_TRACE(std::string(graph::Name(dtype)) + c.ToString());
      const TestTensor x = NormalValues(dtype, c.x, 1), dy = NormalValues(dtype, c.y(), 2);
      std::vector<double> y(sources.size()), dx(static_cast<size_t>(x.size()));
      for (size_t at = 0; at < sources.size(); ++at) {
        if (sources[at] < 0) continue;
        y[at] = x.at(sources[at]);
        dx[static_cast<size_t>(sources[at])] = dy.at(static_cast<int64_t>(at));
      }
      const TestTensor got = RunOp("space_to_depth", {&x}, c.forward())[0];
      ASSERT_EQ(got.type().shape, c.y());
      EXPECT_EQ(Read(got), y);
      EXPECT_EQ(Read(RunOp("space_to_depth_backward", {&dy}, c.backward())[0]), dx);
    }
  }
}

// ONNX, operator SpaceToDepth, its example; there channels come first.
TEST(SpaceToDepth, OrdersChannelsAsOnnx) {
  std::vector<double> values = {0, 6, 1, 7,  2, 8,  12, 18, 13, 19, 14, 20,
                                3, 9, 4, 10, 5, 11, 15, 21, 16, 22, 17, 23};
  const TestTensor x = Values(DType::kFloat32, {1, 4, 6, 1}, values);
  const Case c{{1, 4, 6, 1}, {.size = {2, 3}, .channels = 4}};
  EXPECT_EQ(Read(RunOp("space_to_depth", {&x}, c.forward())[0]),
            (std::vector<double>{0, 6, 12, 18, 1, 7,  13, 19, 2, 8,  14, 20,
                                 3, 9, 15, 21, 4, 10, 16, 22, 5, 11, 17, 23}));
}

// Two channels: those of a pixel stay together.
TEST(SpaceToDepth, KeepsAPixelsChannelsTogether) {
  std::vector<double> values(16);
  std::iota(values.begin(), values.end(), 0);
  const TestTensor x = Values(DType::kFloat32, {1, 2, 4, 2}, values);
  const Case c{{1, 2, 4, 2}, {.size = {1, 2}, .channels = 9}};
  EXPECT_EQ(Read(RunOp("space_to_depth", {&x}, c.forward())[0]),
            (std::vector<double>{0, 1, 2, 3, 8, 9, 10, 11, 0, 4, 5, 6, 7, 12, 13, 14, 15, 0}));
}

class SpaceToDepthErrors : public testing::Test {
 protected:
  graph::Value Input(Shape shape, DType dtype = DType::kFloat32) {
    return g_.Persistent("x" + std::to_string(count_++), graph::Role::kInput, {dtype, shape});
  }
  void ExpectRefused(Shape shape, const DepthBlocks& blocks, std::string_view why) {
    const graph::Value x = Input(shape);
    ExpectInternalError([&] { SpaceToDepth(g_, x, blocks); }, {"space_to_depth", why});
  }

  graph::Program program_;
  graph::Builder g_{program_};
  int count_ = 0;
};

TEST_F(SpaceToDepthErrors, NameWhatDoesNotFit) {
  const Shape x = {1, 4, 4, 3};
  EXPECT_EQ(g_.shape(SpaceToDepth(g_, Input(x), {.size = {2, 2}, .channels = 12})),
            Shape({1, 2, 2, 12}));
  ExpectRefused({4, 4, 3}, {.size = {2, 2}, .channels = 12}, "[B,H,W,C]");
  ExpectRefused(x, {.size = {2, 2}, .channels = 11}, "no fewer than a block of x has");
  ExpectRefused(x, {.size = {0, 2}, .channels = 12}, "height, width and channels");
  ExpectRefused(x, {.size = {2, -1}, .channels = 12}, "height, width and channels");
  ExpectRefused(x, {.size = {2, 2}, .channels = -12}, "height, width and channels");
  ExpectRefused(x, {.block = 0, .size = {2, 2}, .channels = 12}, "block must be 1 or more");
  ExpectRefused(x, {.pad = {0, -1}, .size = {2, 2}, .channels = 12}, "pad_h and pad_w 0 or more");
  ExpectRefused(x, {.size = {2, 1 << 27}, .channels = 12}, "2^30");
  ExpectRefused(x, {.size = {1 << 29, 2}, .channels = 12}, "2^30");
  ExpectRefused(x, {.pad = {0, 1 << 29}, .size = {2, 2}, .channels = 12}, "2^30");
  const graph::Value tokens = Input(x, DType::kInt32);
  ExpectInternalError(
      [&] {
        SpaceToDepth(g_, tokens, {.size = {2, 2}, .channels = 12});
      },
      {"floating"});
}

TEST_F(SpaceToDepthErrors, NameGradientsOfOtherShapes) {
  const graph::Value dy = Input({1, 2, 2, 12});
  const auto backward = [&](Shape x) {
    const Case c{x, {.size = {2, 2}, .channels = 12}};
    g_.Emit1("space_to_depth_backward", {dy}, c.backward());
  };
  EXPECT_NO_THROW(backward({1, 5, 3, 3}));
  ExpectInternalError([&] { backward({2, 4, 4, 3}); }, {"not as many images"});
  ExpectInternalError([&] { backward({1, 4, 4, 4}); }, {"no fewer than a block of x has"});
}

}  // namespace
}  // namespace plimsoll::ops
