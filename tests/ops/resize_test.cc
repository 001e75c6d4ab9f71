// Resizing along one dimension against its definition in exact arithmetic, pixels that read and are
// read, whole images, and what is refused.
#include "ops/resize/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/resize/resize_axis.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;

// The weight of each pixel of x in pixel o of y.
template <typename Axis>
std::vector<double> Weights(const Axis& axis, int32_t o) {
  std::vector<double> weights(static_cast<size_t>(axis.in));
  int32_t pixels[Axis::kTaps];
  double parts[Axis::kTaps];
  axis.Read(o, pixels, parts);
  for (int k = 0; k < Axis::kTaps; ++k) weights.at(static_cast<size_t>(pixels[k])) += parts[k];
  return weights;
}

// A pixel's readers are those that give it weight, and it has that weight in them.
template <typename Axis>
void ExpectReadersAgree(const Axis& axis) {
  SCOPED_TRACE(std::to_string(axis.in) + " pixels to " + std::to_string(axis.out));
  for (int32_t o = 0; o < axis.out; ++o) {
    const std::vector<double> weights = Weights(axis, o);
    double sum = 0;
    for (int32_t pixel = 0; pixel < axis.in; ++pixel) {
      const double weight = weights[static_cast<size_t>(pixel)];
      const ResizeRange readers = axis.Readers(pixel);
      ASSERT_GE(readers.begin, 0);
      ASSERT_LE(readers.end, axis.out);
      ASSERT_EQ(o >= readers.begin && o < readers.end, weight != 0) << o << " reads " << pixel;
      if (weight != 0) {
        ASSERT_NEAR(axis.template Weight<double>(o, pixel), weight, 1e-15);
        ASSERT_NEAR(axis.template Weight<float>(o, pixel), weight, 1e-7);
      }
      sum += weight;
    }
    ASSERT_NEAR(sum, 1, 1e-15);
  }
}

TEST(ResizeAxis, ReadersAreThosePixelsThatRead) {
  for (int32_t in = 1; in <= 20; ++in) {
    for (int32_t out = 1; out <= 45; ++out) {
      ExpectReadersAgree(NearestAxis(in, out));
      ExpectReadersAgree(LinearAxis(in, out, false));
      ExpectReadersAgree(LinearAxis(in, out, true));
    }
  }
  // Where float32 rounds below the next pixel.
  for (const int32_t out : {123, 141, 165, 183}) ExpectReadersAgree(NearestAxis(3, out));
}

// Positions as PyTorch defines them, exact in double for such sizes.
TEST(ResizeAxis, ReadsAtThePositionOfThePixel) {
  for (const bool align_corners : {false, true}) {
    for (int32_t in = 1; in <= 17; ++in) {
      for (int32_t out = 1; out <= 33; ++out) {
        const LinearAxis axis(in, out, align_corners);
        for (int32_t o = 0; o < out; ++o) {
          const double corners = out > 1 ? static_cast<double>(o) * (in - 1) / (out - 1) : 0;
          const double middle = (o + 0.5) * in / out - 0.5;
          const double p = align_corners ? corners : std::clamp<double>(middle, 0, in - 1);
          double position = 0;
          for (int32_t pixel = 0; pixel < in; ++pixel) {
            position += pixel * Weights(axis, o)[static_cast<size_t>(pixel)];
          }
          ASSERT_NEAR(position, p, 1e-13) << in << " to " << out << ", pixel " << o;
        }
      }
    }
  }
}

// Sums and products of positions stay within 32 bits.
TEST(ResizeAxis, TakesTheLargestSizes) {
  const auto largest = static_cast<int32_t>(kMostResizeSize);
  for (const int32_t in : {1, 2, 3, 32767, largest}) {
    for (const int32_t out : {1, 2, 3, 32767, largest}) {
      for (const bool align_corners : {false, true}) {
        const LinearAxis axis(in, out, align_corners);
        for (const int32_t o : {0, out / 2, out - 1}) {
          int32_t pixels[2];
          double weights[2];
          axis.Read(o, pixels, weights);
          const double p = align_corners
                               ? (out > 1 ? static_cast<double>(o) * (in - 1) / (out - 1) : 0)
                               : std::clamp<double>((o + 0.5) * in / out - 0.5, 0, in - 1);
          ASSERT_NEAR(pixels[0] * weights[0] + pixels[1] * weights[1], p, 1e-10);
          for (const int32_t pixel : pixels) {
            const ResizeRange readers = axis.Readers(pixel);
            ASSERT_TRUE(o >= readers.begin && o < readers.end) << in << " to " << out;
            ASSERT_LE(readers.end, out);
          }
        }
      }
      const NearestAxis nearest(in, out);
      for (const int32_t o : {0, out / 2, out - 1}) {
        const int32_t pixel = nearest.Nearest(o);
        ASSERT_NEAR(pixel, std::floor(static_cast<double>(o) * in / out), 1);
        const ResizeRange readers = nearest.Readers(pixel);
        ASSERT_TRUE(o >= readers.begin && o < readers.end) << in << " to " << out;
      }
    }
  }
}

TEST(ResizeAxis, IsExactForTwiceTheSize) {
  for (int32_t in = 1; in <= kMostResizeSize / 2; ++in) {
    const NearestAxis nearest(in, 2 * in);
    const LinearAxis linear(in, 2 * in, false);
    for (int32_t pixel = 0; pixel < in; pixel += 1 + in / 50) {
      ASSERT_EQ(nearest.Nearest(2 * pixel), pixel);
      ASSERT_EQ(nearest.Nearest(2 * pixel + 1), pixel);
      if (pixel == 0) continue;
      for (const int32_t o : {2 * pixel - 1, 2 * pixel}) {
        int32_t pixels[2];
        float weights[2];
        linear.Read(o, pixels, weights);
        ASSERT_EQ(pixels[0], pixel - 1);
        ASSERT_EQ(pixels[1], pixel);
        ASSERT_EQ(weights[1], o % 2 == 0 ? 0.75f : 0.25f);
        ASSERT_EQ(weights[0], 1 - weights[1]);
        ASSERT_EQ(linear.Weight<float>(o, pixel), weights[1]);
      }
    }
  }
}

// By hand, one channel.
TEST(Resize, InterpolatesImages) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    const TestTensor x = Values(dtype, {1, 2, 2, 1}, {0, 4, 8, 16});
    const std::vector<int64_t> size = {2, 4};
    const auto read = [&](const ResizeOptions& options) {
      const TestTensor y = RunOp("resize", {&x}, ResizeAttributes(size, options))[0];
      std::vector<double> values;
      for (int64_t i = 0; i < y.size(); ++i) values.push_back(y.at(i));
      return values;
    };
    EXPECT_EQ(read({.mode = ResizeMode::kNearest}),
              (std::vector<double>{0, 0, 4, 4, 8, 8, 16, 16}));
    EXPECT_EQ(read({}), (std::vector<double>{0, 1, 3, 4, 8, 10, 14, 16}));
  }
}

// Pixels that have no weight do not matter, nor does how often a pixel is read.
TEST(Resize, KeepsInfinityWhereItIs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const TestTensor x = Values(DType::kFloat32, {1, 1, 1, 3, 1}, {1, kInfinity, 2});
  const std::vector<int64_t> size = {1, 2, 5};
  const TestTensor y = RunOp("resize", {&x}, ResizeAttributes(size, {.align_corners = true}))[0];
  for (int64_t i = 0; i < 10; ++i) {
    const double expected = i % 5 == 0 ? 1 : i % 5 == 4 ? 2 : kInfinity;
    EXPECT_EQ(y.at(i), expected) << i;
  }
}

class ResizeErrors : public testing::Test {
 protected:
  void ExpectRefused(Shape shape, std::vector<int64_t> size, std::string_view why,
                     const ResizeOptions& options = {}, DType dtype = DType::kFloat32) {
    const graph::Value x =
        g_.Persistent("x" + std::to_string(count_++), graph::Role::kInput, {dtype, shape});
    ExpectInternalError([&] { Resize(g_, x, size, options); }, {"resize", why});
  }

  graph::Program program_;
  graph::Builder g_{program_};
  int count_ = 0;
};

TEST_F(ResizeErrors, NameWhatDoesNotFit) {
  const int64_t many = kMostResizeSize + 1;
  ExpectRefused({4, 4, 3}, {2, 2}, "[B,H,W,C]");
  ExpectRefused({1, 4, 4, 3}, {2, 2}, "floating", {}, DType::kInt32);
  ExpectRefused({1, 4, 4, 3}, {2, 2, 2}, "an image has none");
  ExpectRefused({1, 2, 4, 4, 3}, {2, 2}, "a volume has a depth");
  ExpectRefused({1, 2, 4, 4, 3}, {1, 2, 2, 2}, "2 or 3 dimensions");
  ExpectRefused({1, 4, 4, 3}, {0, 2}, "1 to 2^15");
  ExpectRefused({1, 4, 4, 3}, {2, many}, "1 to 2^15");
  ExpectRefused({1, 4, 0, 3}, {2, 2}, "1 to 2^15");
  ExpectRefused({1, many, 4, 3}, {2, 2}, "1 to 2^15");
  ExpectRefused({1, 2, 2, 2}, {1 << 15, 1 << 15}, "fewer than 2^31");
  ExpectRefused({1, 2, 2, 2}, {2, 2}, "aligns corners",
                {.mode = ResizeMode::kNearest, .align_corners = true});
}

}  // namespace
}  // namespace plimsoll::ops
