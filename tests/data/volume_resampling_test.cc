#include "data/volumes/volume_resampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plimsoll::data {
namespace {

using Point = std::array<double, 3>;  // in millimetres along D, H, W

constexpr double kExtent = 24;  // of each side of a volume, in millimetres

// The voxels of a volume, each with a spacing of its own along every axis.
struct Grid {
  VolumeSize size;
  Point spacing;
};

Grid GridOf(const Point& spacing) {
  const auto length = [&](size_t axis) { return std::llround(kExtent / spacing[axis]); };
  const VolumeSize size = {length(0), length(1), length(2)};
  const auto exact = [](int64_t voxels) { return kExtent / static_cast<double>(voxels); };
  return {size, {exact(size.depth), exact(size.height), exact(size.width)}};
}

// Calls visit(centre of the voxel) for each voxel, in order.
template <typename Visit>
void ForEachVoxel(const Grid& grid, const Visit& visit) {
  const auto centre = [&](int64_t index, size_t axis) {
    return (static_cast<double>(index) + 0.5) * grid.spacing[axis];
  };
  for (int64_t d = 0; d < grid.size.depth; ++d) {
    for (int64_t h = 0; h < grid.size.height; ++h) {
      for (int64_t w = 0; w < grid.size.width; ++w) {
        visit(Point{centre(d, 0), centre(h, 1), centre(w, 2)});
      }
    }
  }
}

struct Ball {
  Point centre;
  double radius = 0;

  // The distance from the border; positive inside.
  double Inside(const Point& at) const {
    double squares = 0;
    for (size_t i = 0; i < 3; ++i) squares += (at[i] - centre[i]) * (at[i] - centre[i]);
    return radius - std::sqrt(squares);
  }
};

// Classes 7 and 201: two balls, 201 in front.
constexpr uint8_t kFirst = 7, kSecond = 201;
using Balls = std::array<Ball, 2>;

std::vector<uint8_t> LabelsOf(const Balls& balls, const Grid& grid) {
  std::vector<uint8_t> labels;
  ForEachVoxel(grid, [&](const Point& at) {
    labels.push_back(balls[1].Inside(at) > 0 ? kSecond : balls[0].Inside(at) > 0 ? kFirst : 0);
  });
  return labels;
}

Point CentreOfMass(std::span<const uint8_t> labels, const Grid& grid, uint8_t label) {
  Point sum = {};
  size_t voxel = 0, count = 0;
  ForEachVoxel(grid, [&](const Point& at) {
    if (labels[voxel++] != label) return;
    ++count;
    for (size_t i = 0; i < 3; ++i) sum[i] += at[i];
  });
  for (double& one : sum) one /= static_cast<double>(count);
  return sum;
}

double Dice(std::span<const uint8_t> a, std::span<const uint8_t> b, uint8_t label) {
  double both = 0, either = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += a[i] == label && b[i] == label ? 2 : 0;
    either += (a[i] == label ? 1 : 0) + (b[i] == label ? 1 : 0);
  }
  return both / either;
}

// The classes of scores [d,h,w,K] after resampling.
std::vector<uint8_t> Likeliest(std::span<const float> scores, const VolumeSize& from,
                               const VolumeSize& to, int64_t classes) {
  LikeliestClasses likeliest(from, to, classes);
  const auto slice = static_cast<size_t>(from.height * from.width * classes);
  for (size_t first = 0; first < scores.size(); first += slice) {
    likeliest.AddSlice(scores.subspan(first, slice));
  }
  return likeliest.Take();
}

// The classes, 1 and 2 for the balls, of a model that knows the distances from all borders.
std::vector<uint8_t> PredictedFrom(const Balls& balls, const Grid& from, const Grid& to) {
  std::vector<float> scores;
  ForEachVoxel(from, [&](const Point& at) {
    const double first = balls[0].Inside(at), second = balls[1].Inside(at);
    const double background = -std::max(first, second);
    for (const double score : {background, std::min(first, -second), second}) {
      scores.push_back(static_cast<float>(score));
    }
  });
  return Likeliest(scores, from.size, to.size, 3);
}

TEST(VolumeResampling, SizeFollowsTheSpacing) {
  using Spacing = std::array<double, 3>;
  const VolumeSize size = {10, 20, 30};
  EXPECT_EQ(SizeAt(size, Spacing{3, 1, 0.5}, Spacing{1, 1, 1}), (VolumeSize{30, 20, 15}));
  EXPECT_EQ(SizeAt(size, Spacing{1, 1, 1}, Spacing{4, 3, 1.001}), (VolumeSize{3, 7, 30}));
  EXPECT_EQ(SizeAt(size, Spacing{1, 1, 1}, Spacing{100, 1e300, 1e-300}),
            (VolumeSize{1, 1, 1 << 20}));
}

void ExpectNear(const std::vector<float>& values, const std::vector<float>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5) << i;
}

// Expected numbers are those of PyTorch's interpolate, "trilinear" without align_corners.
TEST(VolumeResampling, ImagesAreResampledLinearly) {
  const std::vector<float> voxels = {0, 10, 4, 8, 1, -3};
  const VolumeSize from = {1, 2, 3};
  ExpectNear(ResampledLinear(voxels, from, {2, 3, 2}, 1),
             {2.5, 5.5, 4.375, 1.75, 6.25, -2, 2.5, 5.5, 4.375, 1.75, 6.25, -2});
  ExpectNear(ResampledLinear(voxels, from, {1, 1, 5}, 1), {4, 4.6f, 5.5, 2.5, 0.5});
  const std::vector<float> slice = {0, 6.25,    7.75,   4,     2, 5.59375, 5.6875, 2.25,
                                    6, 4.28125, 1.5625, -1.25, 8, 3.625,   -0.5,   -3};
  std::vector<float> three;
  for (int i = 0; i < 3; ++i) three.insert(three.end(), slice.begin(), slice.end());
  ExpectNear(ResampledLinear(voxels, from, {3, 4, 4}, 1), three);
  // The same along z, and each channel by itself.
  ExpectNear(ResampledLinear(voxels, {3, 1, 2}, {5, 1, 1}, 1), {5, 5.4f, 6, 1.8f, -1});
  std::vector<float> channels, expected;
  for (const float value : voxels) channels.insert(channels.end(), {value, 100 - value});
  for (const float value : slice) expected.insert(expected.end(), {value, 100 - value});
  ExpectNear(ResampledLinear(channels, from, {1, 4, 4}, 2), expected);
  EXPECT_EQ(ResampledLinear(voxels, from, from, 1), voxels);
  EXPECT_THROW(ResampledLinear(voxels, from, from, 2), InternalError);
}

// Spacings in millimetres: multiples by 2, 4 and 6, by 3, and fractions, also those whose centres
// lie in the middle between two voxels.
constexpr std::array<std::pair<double, double>, 12> kSpacings = {{{0.5, 1},
                                                                  {0.75, 1.5},
                                                                  {1, 2},
                                                                  {1.5, 3},
                                                                  {0.5, 2},
                                                                  {0.5, 3},
                                                                  {0.5, 1.5},
                                                                  {1, 3},
                                                                  {1, 1.5},
                                                                  {0.8, 1},
                                                                  {0.75, 1},
                                                                  {0.6, 1.5}}};

// Calls visit(from, to) for every pair of spacings, finer and coarser, along each axis alone and
// along all three.
template <typename Visit>
void ForEachPair(const Visit& visit) {
  for (const auto& [fine, coarse] : kSpacings) {
    for (int axes = 0; axes < 4; ++axes) {
      Point other = {fine, fine, fine};
      for (size_t i = 0; i < 3; ++i) {
        if (axes == 3 || static_cast<int>(i) == axes) other[i] = coarse;
      }
      const Grid finer = GridOf({fine, fine, fine}), coarser = GridOf(other);
      visit(finer, coarser);
      visit(coarser, finer);
    }
  }
}

// Expects that each class of the balls has its centre of mass where it had it, in the mean over
// balls at several places. `bound` is a part of the coarser spacing. Places come with their mirror
// image, and with the place one new voxel farther along D, whose equal shares go to the other
// class. So only a shift in one direction remains in the mean.
template <typename Resample>
void ExpectInPlace(const Grid& from, const Grid& to, const std::array<uint8_t, 2>& classes,
                   double bound, const Resample& resample) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> somewhere(9.5, 12.5);
  constexpr int kPlaces = 12;
  Point centre;
  std::array<Point, 2> shifts = {};
  for (int place = 0; place < kPlaces; ++place) {
    for (double& one : centre) one = place % 4 == 0 ? somewhere(random) : kExtent - one;
    if (place % 4 == 2) centre[0] += to.spacing[0];
    const Balls balls = {Ball{centre, 8}, Ball{centre, 5}};
    const std::vector<uint8_t> labels = LabelsOf(balls, from);
    const std::vector<uint8_t> resampled = resample(balls, labels);
    ASSERT_EQ(std::ssize(resampled), to.size.voxels());
    for (size_t k = 0; k < 2; ++k) {
      const Point before = CentreOfMass(labels, from, k == 0 ? kFirst : kSecond);
      const Point after = CentreOfMass(resampled, to, classes[k]);
      for (size_t i = 0; i < 3; ++i) shifts[k][i] += (after[i] - before[i]) / kPlaces;
    }
  }
  for (size_t k = 0; k < 2; ++k) {
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(shifts[k][i], 0, bound * std::max(from.spacing[i], to.spacing[i]))
          << "class " << k + 1 << ", axis " << i << ": " << from.spacing[i] << " mm to "
          << to.spacing[i];
    }
  }
}

TEST(VolumeResampling, LabelsStayInPlace) {
  ForEachPair([](const Grid& from, const Grid& to) {
    ExpectInPlace(from, to, {kFirst, kSecond}, 0.05, [&](const Balls&, const auto& labels) {
      return ResampledLabels(labels, from.size, to.size);
    });
  });
}

TEST(VolumeResampling, PredictionsStayInPlace) {
  ForEachPair([](const Grid& from, const Grid& to) {
    ExpectInPlace(from, to, {1, 2}, 0.01,
                  [&](const Balls& balls, const auto&) { return PredictedFrom(balls, from, to); });
  });
}

// Next to the mask that the ball itself has in the new voxels. Taking the nearest voxel gave 0.92
// and 0.73.
TEST(VolumeResampling, MasksOfASmallBallAgree) {
  double labels = 0, predictions = 0;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> somewhere(10, 14);
  constexpr int kPlaces = 20;
  for (int place = 0; place < kPlaces; ++place) {
    const Ball ball = {{somewhere(random), somewhere(random), somewhere(random)}, 4};
    const Balls balls = {ball, Ball{{}, -100}};  // the second is nowhere
    const Grid half = GridOf({0.5, 0.5, 0.5}), one = GridOf({1, 1, 1});
    labels += Dice(ResampledLabels(LabelsOf(balls, half), half.size, one.size),
                   LabelsOf(balls, one), kFirst);
    const Grid model = GridOf({1.5, 1.5, 1.5}), file = GridOf({3, 3, 3});
    std::vector<uint8_t> expected = LabelsOf(balls, file);
    std::ranges::replace(expected, kFirst, uint8_t{1});
    predictions += Dice(PredictedFrom(balls, model, file), expected, 1);
  }
  EXPECT_GT(labels / kPlaces, 0.96);
  EXPECT_GT(predictions / kPlaces, 0.93);
}

// Next to interpolating the share of each class as an image, where one share is clearly largest.
TEST(VolumeResampling, LabelsHaveTheLargestShare) {
  const VolumeSize from = {7, 6, 5};
  const std::vector<uint8_t> classes = {0, 1, 3, 128, 254, kNoLabel};
  std::mt19937 random(1);
  std::vector<uint8_t> labels;
  for (int64_t i = 0; i < from.voxels(); ++i) labels.push_back(classes[random() % classes.size()]);
  for (const VolumeSize& to : {VolumeSize{4, 9, 5}, VolumeSize{15, 6, 2}, VolumeSize{3, 13, 11},
                               VolumeSize{2, 3, 4}, VolumeSize{7, 12, 10}}) {
    const std::vector<uint8_t> resampled = ResampledLabels(labels, from, to);
    std::vector<float> largest(resampled.size()), second(resampled.size());
    std::vector<uint8_t> expected(resampled.size());
    for (const uint8_t label : classes) {
      std::vector<float> share;
      for (const uint8_t one : labels) share.push_back(one == label ? 1 : 0);
      share = ResampledLinear(share, from, to, 1);
      for (size_t i = 0; i < share.size(); ++i) {
        second[i] = std::max(second[i], std::min(share[i], largest[i]));
        if (share[i] <= largest[i]) continue;
        largest[i] = share[i];
        expected[i] = label;
      }
    }
    int64_t clear = 0;
    for (size_t i = 0; i < resampled.size(); ++i) {
      if (largest[i] - second[i] < 1e-5) continue;
      EXPECT_EQ(resampled[i], expected[i]) << i;
      ++clear;
    }
    EXPECT_GE(2 * clear, to.voxels());
  }
}

// A flat border in the middle of new voxels, where two classes have equal shares.
TEST(VolumeResampling, EqualSharesFavourNoClass) {
  const VolumeSize from = {8, 8, 8}, to = {4, 4, 4};
  for (const auto& [below, above] :
       std::vector<std::pair<uint8_t, uint8_t>>{{0, 1}, {1, 0}, {3, 254}, {kNoLabel, 2}}) {
    for (int axis = 0; axis < 3; ++axis) {
      std::vector<uint8_t> labels;
      for (int64_t i = 0; i < from.voxels(); ++i) {
        const std::array<int64_t, 3> at = {i / 64, i / 8 % 8, i % 8};
        labels.push_back(at[static_cast<size_t>(axis)] < 3 ? below : above);
      }
      const std::vector<uint8_t> resampled = ResampledLabels(labels, from, to);
      EXPECT_EQ(std::ranges::count(resampled, below), 16 + 8);
      EXPECT_EQ(std::ranges::count(resampled, above), 32 + 8);
    }
  }
  // Exactly equal also where weights are no powers of two: one new voxel of three is in the middle.
  std::vector<uint8_t> labels(2 * 4 * 4);
  std::fill(labels.begin() + 16, labels.end(), uint8_t{1});
  const std::vector<uint8_t> resampled = ResampledLabels(labels, {2, 4, 4}, {3, 6, 6});
  EXPECT_EQ(std::ranges::count(resampled, 1), 36 + 18);
}

TEST(VolumeResampling, OneSizeIsACopy) {
  std::mt19937 random(1);
  std::vector<uint8_t> labels, likeliest;
  std::vector<float> scores;
  const VolumeSize size = {3, 4, 5};
  for (int64_t i = 0; i < size.voxels(); ++i) {
    labels.push_back(static_cast<uint8_t>(random()));
    float largest = -1;
    likeliest.push_back(0);
    for (uint8_t k = 0; k < 200; ++k) {
      scores.push_back(static_cast<float>(random()));
      if (scores.back() <= largest) continue;
      largest = scores.back();
      likeliest.back() = k;
    }
  }
  EXPECT_EQ(ResampledLabels(labels, size, size), labels);
  EXPECT_EQ(Likeliest(scores, size, size, 200), likeliest);
  EXPECT_THROW(ResampledLabels(labels, {3, 4, 4}, size), InternalError);
}

TEST(VolumeResampling, OneVoxelFillsItsAxis) {
  const std::vector<uint8_t> labels = {4, 4, 9, 9};
  EXPECT_EQ(ResampledLabels(labels, {1, 1, 4}, {2, 1, 2}), (std::vector<uint8_t>{4, 9, 4, 9}));
  EXPECT_EQ(ResampledLabels(labels, {4, 1, 1}, {2, 2, 1}), (std::vector<uint8_t>{4, 4, 9, 9}));
  EXPECT_EQ(ResampledLabels(std::vector<uint8_t>{1, 1, 2}, {3, 1, 1}, {1, 1, 1}),
            std::vector<uint8_t>{1});
  EXPECT_EQ(Likeliest(std::vector<float>{0, 1, 0, 1, 1, 0, 1, 0}, {1, 1, 4}, {3, 2, 2}, 2),
            (std::vector<uint8_t>{1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}));
}

// Next to interpolating all scores of a volume at a time.
TEST(VolumeResampling, PredictionsHaveTheLargestInterpolatedScore) {
  constexpr int64_t kClasses = 4;
  std::mt19937 random(1);
  std::normal_distribution<float> number;
  const VolumeSize from = {7, 6, 5};
  std::vector<float> scores(static_cast<size_t>(from.voxels() * kClasses));
  for (float& score : scores) score = number(random);
  for (const VolumeSize& to : {VolumeSize{4, 9, 5}, VolumeSize{15, 6, 2}, VolumeSize{2, 13, 11},
                               VolumeSize{1, 1, 1}, VolumeSize{14, 12, 10}}) {
    const std::vector<float> all = ResampledLinear(scores, from, to, kClasses);
    const std::vector<uint8_t> classes = Likeliest(scores, from, to, kClasses);
    ASSERT_EQ(std::ssize(classes), to.voxels());
    for (size_t i = 0; i < classes.size(); ++i) {
      const auto of_voxel = std::span(all).subspan(i * kClasses, kClasses);
      EXPECT_NEAR(of_voxel[classes[i]], *std::ranges::max_element(of_voxel), 1e-5);
    }
  }
}

TEST(VolumeResampling, PredictionsNeedAllSlices) {
  LikeliestClasses likeliest({2, 3, 4}, {4, 3, 4}, 2);
  EXPECT_THROW(likeliest.AddSlice(std::vector<float>(23)), InternalError);
  likeliest.AddSlice(std::vector<float>(24));
  EXPECT_THROW(likeliest.Take(), InternalError);
  likeliest.AddSlice(std::vector<float>(24));
  EXPECT_EQ(likeliest.Take().size(), 48u);
  // A slice, a row, and the places of the new voxels along the axes.
  EXPECT_EQ(LikeliestClasses::Bytes({2, 3, 4}, {4, 3, 4}, 2),
            (3 + 1) * 4 * 2 * 4 + 11 * int64_t{sizeof(AxisPlace)});
}

}  // namespace
}  // namespace plimsoll::data
