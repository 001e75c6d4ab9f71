// Poolings against loops that follow their definition, in every type; ties, NaN and padding; shapes
// and windows that do not fit.
#include "ops/pooling/pooling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/data_movement/subsample.h"
#include "ops/definition.h"
#include "ops/pooling/pool_blocks.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;
using graph::Shape;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};

struct Case {
  Shape x;
  Pool2d window;
};

std::vector<Case> Cases() {
  return {
      {{2, 7, 9, 5}, Pool2d::Square(3, 2, 1)},  // overlapping, padded
      {{1, 8, 8, 8}, Pool2d::Square(2, 2)},     // every element in one window
      {{2, 8, 11, 3}, Pool2d::Square(2, 3)},    // a stride beyond the window
      {{1, 5, 6, 16}, Pool2d::Square(3, 1, 1)},
      {{2, 4, 3, 9}, Pool2d::Square(1, 1)},
      {{1, 5, 5, 4}, Pool2d::Square(1, 2)},
      {{2, 7, 7, 17}, Pool2d::Square(7, 1)},  // the whole image
      {{1, 1, 1, 3}, Pool2d::Square(3, 2, 1)},
      {{1, 6, 13, 2},
       {.kernel_h = 4, .kernel_w = 5, .stride_h = 1, .stride_w = 3, .pad_h = 2, .pad_w = 0}},
      {{3, 9, 2, 8},
       {.kernel_h = 3, .kernel_w = 2, .stride_h = 5, .stride_w = 1, .pad_h = 0, .pad_w = 1}},
      {{0, 4, 4, 3}, Pool2d::Square(2, 2)},
      {{2, 4, 4, 0}, Pool2d::Square(2, 2)},
  };
}

std::string Describe(const Case& c, DType dtype) {
  const Pool2d& w = c.window;
  return std::string(graph::Name(dtype)) + c.x.ToString() + " window " +
         Shape({w.kernel_h, w.kernel_w}).ToString() + " stride " +
         Shape({w.stride_h, w.stride_w}).ToString() + " padding " +
         Shape({w.pad_h, w.pad_w}).ToString();
}

// Calls body(pooled element, image element or -1 in the padding, position) for each element of each
// window.
template <typename Body>
void ForWindows(const Case& c, const Body& body) {
  const Pool2d& p = c.window;
  const int64_t h = c.x.dim(1), w = c.x.dim(2), channels = c.x.dim(3);
  const int64_t rows = (h + 2 * p.pad_h - p.kernel_h) / p.stride_h + 1;
  const int64_t columns = (w + 2 * p.pad_w - p.kernel_w) / p.stride_w + 1;
  int64_t pooled = 0;
  for (int64_t b = 0; b < c.x.dim(0); ++b) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t channel = 0; channel < channels; ++channel, ++pooled) {
          for (int64_t r = 0; r < p.kernel_h; ++r) {
            for (int64_t s = 0; s < p.kernel_w; ++s) {
              const int64_t y = i * p.stride_h - p.pad_h + r, x = j * p.stride_w - p.pad_w + s;
              const bool inside = y >= 0 && y < h && x >= 0 && x < w;
              const int64_t element = ((b * h + y) * w + x) * channels + channel;
              body(pooled, inside ? element : -1, r * p.kernel_w + s);
            }
          }
        }
      }
    }
  }
}

Shape PooledShape(const Case& c) {
  const Pool2d& p = c.window;
  return {c.x.dim(0), (c.x.dim(1) + 2 * p.pad_h - p.kernel_h) / p.stride_h + 1,
          (c.x.dim(2) + 2 * p.pad_w - p.kernel_w) / p.stride_w + 1, c.x.dim(3)};
}

struct MaxReference {
  std::vector<double> y, index, dx;
};

MaxReference MaxOf(const Case& c, const TestTensor& x, const TestTensor& dy) {
  const int64_t pooled = dy.size();
  MaxReference want{std::vector<double>(pooled), std::vector<double>(pooled, -1),
                    std::vector<double>(x.size())};
  std::vector<int64_t> winner(pooled);
  ForWindows(c, [&](int64_t at, int64_t element, int64_t position) {
    if (element < 0) return;
    const double value = x.at(element);
    if (want.index[at] >= 0 && !(value > want.y[at]) && !std::isnan(value)) return;
    want.y[at] = value;
    want.index[at] = static_cast<double>(position);
    winner[at] = element;
  });
  for (int64_t at = 0; at < pooled; ++at) want.dx[winner[at]] += dy.at(at);
  return want;
}

struct AvgReference {
  std::vector<double> y, dx;
};

AvgReference AvgOf(const Case& c, bool padded, const TestTensor& x, const TestTensor& dy) {
  AvgReference want{std::vector<double>(dy.size()), std::vector<double>(x.size())};
  std::vector<double> count(dy.size());
  ForWindows(c, [&](int64_t at, int64_t element, int64_t) {
    if (padded || element >= 0) ++count[at];
    if (element >= 0) want.y[at] += x.at(element);
  });
  for (int64_t at = 0; at < dy.size(); ++at) want.y[at] /= count[at];
  ForWindows(c, [&](int64_t at, int64_t element, int64_t) {
    if (element >= 0) want.dx[element] += dy.at(at) / count[at];
  });
  return want;
}

// The error of computing in float32, or double, and of rounding the result.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-14;
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat16:
      return 0x1p-11;
    default:
      return 1e-6;
  }
}

std::vector<double> Read(const TestTensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(tensor.at(i));
  return values;
}

TEST(MaxPool2d, FollowsItsDefinition) {
  for (const Case& c : Cases()) {
    for (DType dtype : kTypes) {
      SCOPED_TRACE(Describe(c, dtype));
      const TestTensor x = NormalValues(dtype, c.x, 1), dy = NormalValues(dtype, PooledShape(c), 2);
      const MaxReference want = MaxOf(c, x, dy);
      const std::vector<TestTensor> forward = RunOp("max_pool2d", {&x}, ToAttributes(c.window));
      ASSERT_EQ(forward[0].type().shape, PooledShape(c));
      EXPECT_EQ(Read(forward[0]), want.y);
      EXPECT_EQ(Read(forward[1]), want.index);
      const TestTensor dx = RunOp("max_pool2d_backward", {&dy, &forward[1]},
                                  WithImageSize(ToAttributes(c.window), c.x))[0];
      ExpectNear(dx, want.dx, Tolerance(dtype), "dx");
    }
  }
}

TEST(AvgPool2d, FollowsItsDefinition) {
  for (const Case& c : Cases()) {
    for (DType dtype : kTypes) {
      for (bool padded : {true, false}) {
        SCOPED_TRACE(Describe(c, dtype) + (padded ? ", counted" : ""));
        Attributes attributes = ToAttributes(c.window);
        attributes.Set("count_include_pad", padded);
        const TestTensor x = NormalValues(dtype, c.x, 1),
                         dy = NormalValues(dtype, PooledShape(c), 2);
        const AvgReference want = AvgOf(c, padded, x, dy);
        const TestTensor y = RunOp("avg_pool2d", {&x}, attributes)[0];
        ASSERT_EQ(y.type().shape, PooledShape(c));
        ExpectNear(y, want.y, Tolerance(dtype), "y");
        const TestTensor dx =
            RunOp("avg_pool2d_backward", {&dy}, WithImageSize(attributes, c.x))[0];
        ExpectNear(dx, want.dx, Tolerance(dtype), "dx");
      }
    }
  }
}

TEST(GlobalAvgPool, FollowsItsDefinition) {
  for (const Shape& shape : std::vector<Shape>{
           {2, 7, 7, 5}, {1, 1, 1, 3}, {3, 13, 11, 300}, {1, 60, 50, 2}, {0, 2, 2, 4}}) {
    for (DType dtype : kTypes) {
      SCOPED_TRACE(std::string(graph::Name(dtype)) + shape.ToString());
      const int64_t pixels = shape.dim(1) * shape.dim(2), channels = shape.dim(3);
      const TestTensor x = NormalValues(dtype, shape, 1),
                       dy = NormalValues(dtype, {shape.dim(0), channels}, 2);
      std::vector<double> y(dy.size()), dx(x.size());
      for (int64_t i = 0; i < x.size(); ++i) {
        const int64_t at = i / (pixels * channels) * channels + i % channels;
        y[at] += x.at(i) / static_cast<double>(pixels);
        dx[i] = dy.at(at) / static_cast<double>(pixels);
      }
      ExpectNear(RunOp("global_avg_pool", {&x})[0], y, Tolerance(dtype), "y");
      ExpectNear(
          RunOp("global_avg_pool_backward", {&dy}, {{"h", shape.dim(1)}, {"w", shape.dim(2)}})[0],
          dx, Tolerance(dtype), "dx");
    }
  }
}

TEST(MaxPool2d, GivesTiesToTheFirstElementOfTheImage) {
  for (DType dtype : kTypes) {
    for (double value : {-2.0, 0.0, -kInfinity}) {
      const TestTensor x = Values(dtype, {1, 3, 3, 1}, std::vector<double>(9, value));
      const std::vector<TestTensor> pooled =
          RunOp("max_pool2d", {&x}, ToAttributes(Pool2d::Square(3, 2, 1)));
      EXPECT_EQ(Read(pooled[0]), std::vector<double>(4, value));
      // The first window begins with a row and a column of padding.
      EXPECT_EQ(Read(pooled[1]), (std::vector<double>{4, 3, 1, 0}));
    }
  }
}

// As in PyTorch, where several are NaN, the last one receives the gradient.
TEST(MaxPool2d, NanWinsAndTheLastReceivesTheGradient) {
  for (DType dtype : kTypes) {
    SCOPED_TRACE(graph::Name(dtype));
    const TestTensor x =
        Values(dtype, {1, 2, 6, 1}, {1, kNan, kInfinity, 2, kNan, 3, 5, 4, kNan, 1, kNan, 9});
    const std::vector<TestTensor> pooled =
        RunOp("max_pool2d", {&x}, ToAttributes(Pool2d::Square(2, 2)));
    for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(pooled[0].at(i))) << i;
    EXPECT_EQ(Read(pooled[1]), (std::vector<double>{1, 2, 2}));
  }
}

// A window contains the elements that say that they are in it, and no window is without elements.
TEST(PoolAxis, WindowsAndElementsAgree) {
  for (int32_t size = 1; size <= 9; ++size) {
    for (int32_t kernel = 1; kernel <= 6; ++kernel) {
      for (int32_t stride = 1; stride <= 4; ++stride) {
        for (int32_t pad = 0; pad <= kernel / 2; ++pad) {
          if (kernel > size + 2 * pad) continue;
          const PoolAxis axis{size, (size + 2 * pad - kernel) / stride + 1, kernel, stride, pad};
          for (int32_t window = 0; window < axis.pooled; ++window) {
            const PoolRange elements = axis.Elements(window);
            EXPECT_LT(elements.begin, elements.end);
            for (int32_t element = 0; element < size; ++element) {
              const PoolRange windows = axis.Windows(element);
              EXPECT_EQ(element >= elements.begin && element < elements.end,
                        window >= windows.begin && window < windows.end);
            }
          }
        }
      }
    }
  }
}

template <int32_t kKernel, int32_t kStride, int32_t kPad>
void ExpectBlocksHaveTheirWindows() {
  using Blocks = PoolBlocks<kKernel, kStride, kPad>;
  for (int32_t size = std::max(1, kKernel - 2 * kPad); size <= 9; ++size) {
    const PoolAxis axis{size, (size + 2 * kPad - kKernel) / kStride + 1, kKernel, kStride, kPad};
    SCOPED_TRACE(Shape({size, kKernel, kStride, kPad}).ToString());
    EXPECT_TRUE(Blocks::Fit(axis));
    for (int32_t element = 0; element < size; ++element) {
      const int32_t block = element / kStride;
      ASSERT_LT(block, Blocks::Count(axis));
      std::vector<int32_t> windows;
      for (int32_t i = 0; i < Blocks::kWindows; ++i) {
        const int32_t window = block + Blocks::kFirst + i, in_block = element % kStride;
        if (window < 0 || window >= axis.pooled || !Blocks::Contains(i, in_block)) continue;
        windows.push_back(window);
        EXPECT_EQ(Blocks::Position(i, in_block), element - axis.Start(window));
      }
      const PoolRange range = axis.Windows(element);
      std::vector<int32_t> want;
      for (int32_t window = range.begin; window < range.end; ++window) want.push_back(window);
      EXPECT_EQ(windows, want) << element;
    }
  }
}

// A block's windows are all those of its elements, in their order.
TEST(PoolBlocks, HaveTheWindowsOfTheirElements) {
  ExpectBlocksHaveTheirWindows<3, 2, 1>();
  ExpectBlocksHaveTheirWindows<2, 2, 0>();
  ExpectBlocksHaveTheirWindows<3, 2, 0>();
  ExpectBlocksHaveTheirWindows<2, 2, 1>();
  ExpectBlocksHaveTheirWindows<3, 1, 1>();
  ExpectBlocksHaveTheirWindows<2, 3, 0>();
  ExpectBlocksHaveTheirWindows<5, 3, 2>();
  static_assert(PoolBlocks<3, 2, 1>::kWindows == 2 && PoolBlocks<2, 2, 0>::kWindows == 1);
  EXPECT_FALSE((PoolBlocks<3, 2, 1>::Fit({8, 3, 3, 2, 0})));
}

// Every pixel of y is one of x between zeros, and every pixel of dx is one of dy or zero.
TEST(Subsample, FollowsItsDefinition) {
  struct Subsampling {
    Shape x;
    int64_t stride, channels, first;
  };
  const std::vector<Subsampling> cases = {{{2, 5, 6, 3}, 2, 7, 0},
                                          {{2, 5, 6, 3}, 2, 7, 2},
                                          {{1, 4, 4, 16}, 2, 32, 8},
                                          {{2, 3, 4, 5}, 1, 8, 3},
                                          {{1, 7, 5, 4}, 3, 4, 0}};
  for (const auto& [shape, stride, channels, first] : cases) {
    for (const DType dtype : kTypes) {
      SCOPED_TRACE(std::string(graph::Name(dtype)) + shape.ToString() + " from channel " +
                   std::to_string(first));
      const Shape small = {shape.dim(0), (shape.dim(1) + stride - 1) / stride,
                           (shape.dim(2) + stride - 1) / stride, channels};
      const TestTensor x = NormalValues(dtype, shape, 1), dy = NormalValues(dtype, small, 2);
      std::vector<double> y(dy.size()), dx(x.size());
      for (int64_t at = 0; at < x.size(); ++at) {
        const int64_t channel = at % shape.dim(3), pixel = at / shape.dim(3);
        const int64_t column = pixel % shape.dim(2), row = pixel / shape.dim(2) % shape.dim(1);
        const int64_t image = pixel / shape.dim(2) / shape.dim(1);
        if (row % stride != 0 || column % stride != 0) continue;
        const int64_t taken =
            (image * small.dim(1) + row / stride) * small.dim(2) + column / stride;
        y[taken * channels + first + channel] = x.at(at);
        dx[at] = dy.at(taken * channels + first + channel);
      }
      Attributes attributes = {{"stride", stride}, {"channels", channels}};
      Attributes backward = {{"stride", stride}};
      for (Attributes* given : {&attributes, &backward}) {
        if (first != 0) given->Set("first_channel", first);
      }
      SetShape(backward, shape);
      const TestTensor got = RunOp("subsample", {&x}, attributes)[0];
      ASSERT_EQ(got.type().shape, small);
      EXPECT_EQ(Read(got), y);
      EXPECT_EQ(Read(RunOp("subsample_backward", {&dy}, backward)[0]), dx);
    }
  }
}

class PoolingErrors : public testing::Test {
 protected:
  graph::Value Images(Shape shape, DType dtype = DType::kFloat32) {
    return g_.Persistent("x" + std::to_string(count_++), graph::Role::kInput, {dtype, shape});
  }
  void ExpectRefused(Shape shape, const Pool2d& window, std::string_view why) {
    const graph::Value x = Images(shape);
    ExpectInternalError([&] { MaxPool2d(g_, x, window); }, {"max_pool2d", why});
    ExpectInternalError([&] { AvgPool2d(g_, x, window); }, {"avg_pool2d", why});
  }

  graph::Program program_;
  graph::Builder g_{program_};
  int count_ = 0;
};

TEST_F(PoolingErrors, NameWhatDoesNotFit) {
  const Pool2d two = Pool2d::Square(2, 2);
  ExpectRefused({4, 4, 3}, two, "[B,H,W,C]");
  ExpectRefused({1, 0, 4, 3}, two, "rows and columns");
  ExpectRefused({1, 5, 2, 3}, Pool2d::Square(3, 1), "larger than the padded image");
  ExpectRefused({1, 4, 4, 3}, Pool2d::Square(3, 1, 2), "at most half");
  ExpectRefused({1, 4, 4, 3}, Pool2d::Square(1, 1, 1), "at most half");
  ExpectRefused({1, 4, 4, 3}, Pool2d::Square(2, 1, -1), "at most half");
  ExpectRefused({1, 4, 4, 3}, Pool2d::Square(2, 0), "stride");
  ExpectRefused({1, 4, 4, 3}, Pool2d::Square(0, 1), "window");
  ExpectRefused({1, 1 << 15, 1 << 15, 2}, two, "2^31");
  const graph::Value tokens = Images({1, 4, 4, 3}, DType::kInt32);
  ExpectInternalError([&] { MaxPool2d(g_, tokens, two); }, {"floating"});
  ExpectInternalError([&] { GlobalAvgPool(g_, tokens); }, {"global_avg_pool", "floating"});
  ExpectInternalError([&] { GlobalAvgPool(g_, Images({1, 0, 4, 3})); }, {"rows and columns"});
  // Positions have 8 bits; an average has none.
  const graph::Value large = Images({1, 32, 32, 1});
  ExpectInternalError([&] { MaxPool2d(g_, large, Pool2d::Square(16, 1)); }, {"255"});
  EXPECT_EQ(g_.shape(AvgPool2d(g_, large, Pool2d::Square(16, 16))), Shape({1, 2, 2, 1}));
}

TEST_F(PoolingErrors, NameChannelsThatDoNotFit) {
  const graph::Value x = Images({1, 4, 4, 3});
  EXPECT_EQ(g_.shape(Subsample(g_, x, 2, 6, "", 3)), Shape({1, 2, 2, 6}));
  ExpectInternalError([&] { Subsample(g_, x, 2, 2); }, {"subsample", "no fewer than x has"});
  ExpectInternalError([&] { Subsample(g_, x, 2, 6, "", 4); }, {"subsample", "first_channel"});
  ExpectInternalError([&] { Subsample(g_, x, 2, 6, "", -1); }, {"subsample", "first_channel"});
}

TEST_F(PoolingErrors, NameGradientsOfOtherShapes) {
  const graph::Value dy = Images({1, 2, 2, 3}), index = Images({1, 2, 2, 3}, DType::kUInt8);
  const Attributes window = ToAttributes(Pool2d::Square(2, 2));
  const auto backward = [&](graph::Value chosen, int64_t size) {
    g_.Emit1("max_pool2d_backward", {dy, chosen}, WithImageSize(window, {1, size, size, 3}));
  };
  EXPECT_NO_THROW(backward(index, 5));
  ExpectInternalError([&] { backward(index, 6); }, {"dy must be f32[1,3,3,3]"});
  ExpectInternalError([&] { backward(dy, 5); }, {"index must be u8[1,2,2,3]"});
}

}  // namespace
}  // namespace plimsoll::ops
