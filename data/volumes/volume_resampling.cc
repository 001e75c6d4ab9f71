#include "data/volumes/volume_resampling.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace plimsoll::data {
namespace {

void RequireSize(size_t values, int64_t expected) {
  if (static_cast<int64_t>(values) != expected) {
    throw InternalError("a volume has another number of voxels than its size says");
  }
}

// The places of the `to` new voxels among `from` source voxels.
std::vector<AxisPlace> PlacesOf(int64_t from, int64_t to) {
  std::vector<AxisPlace> places;
  places.reserve(static_cast<size_t>(to));
  const int64_t unit = 2 * to;  // a source voxel, so that centres are integers
  for (int64_t i = 0; i < to; ++i) {
    const int64_t centre = std::clamp((2 * i + 1) * from - to, int64_t{0}, (from - 1) * unit);
    const int64_t low = centre / unit, rest = centre % unit;
    places.push_back({.low = low,
                      .high = std::min(low + 1, from - 1),
                      .share = static_cast<float>(rest) / static_cast<float>(unit),
                      .low_weight = static_cast<uint64_t>(unit - rest),
                      .high_weight = static_cast<uint64_t>(rest)});
  }
  return places;
}

float Mix(float low, float high, float share) { return low + share * (high - low); }

// The labels of the eight source voxels around a new voxel. Bits of the index: z, y, x; 0 is low.
using Corners = std::array<uint8_t, 8>;

// The label with the largest share; of equal shares the smallest label, or the largest.
uint8_t LargestShare(const Corners& labels, const AxisPlace& z, const AxisPlace& y,
                     const AxisPlace& x, bool smallest) {
  std::array<uint64_t, 8> weights;
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = (i & 4 ? z.high_weight : z.low_weight) * (i & 2 ? y.high_weight : y.low_weight) *
                 (i & 1 ? x.high_weight : x.low_weight);
  }
  uint8_t best = 0;
  uint64_t most = 0;
  for (const uint8_t label : labels) {
    uint64_t share = 0;
    for (size_t i = 0; i < labels.size(); ++i) share += labels[i] == label ? weights[i] : 0;
    if (share < most) continue;
    if (share > most || (smallest ? label < best : label > best)) best = label;
    most = share;
  }
  return best;
}

}  // namespace

VolumeSize SizeAt(const VolumeSize& size, const std::array<double, 3>& spacing,
                  const std::array<double, 3>& wanted) {
  constexpr double kMost = 1 << 20;  // then the product of three sides fits into 64 bits
  const auto length = [&](int64_t from, size_t axis) {
    const double exact = static_cast<double>(from) * spacing[axis] / wanted[axis];
    return static_cast<int64_t>(std::clamp(std::round(exact), 1.0, kMost));
  };
  return {length(size.depth, 0), length(size.height, 1), length(size.width, 2)};
}

std::vector<float> ResampledLinear(std::span<const float> voxels, const VolumeSize& from,
                                   const VolumeSize& to, int64_t channels) {
  RequireSize(voxels.size(), from.voxels() * channels);
  if (from == to) return {voxels.begin(), voxels.end()};
  const std::vector<AxisPlace> heights = PlacesOf(from.height, to.height);
  const std::vector<AxisPlace> widths = PlacesOf(from.width, to.width);
  std::vector<float> result;
  result.reserve(static_cast<size_t>(to.voxels() * channels));
  for (const AxisPlace& z : PlacesOf(from.depth, to.depth)) {
    for (const AxisPlace& y : heights) {
      const auto row = [&](int64_t depth, int64_t height) {
        return voxels.data() + (depth * from.height + height) * from.width * channels;
      };
      const float* const low_low = row(z.low, y.low);
      const float* const low_high = row(z.low, y.high);
      const float* const high_low = row(z.high, y.low);
      const float* const high_high = row(z.high, y.high);
      for (const AxisPlace& x : widths) {
        for (int64_t c = 0; c < channels; ++c) {
          const auto along_x = [&](const float* line) {
            return Mix(line[x.low * channels + c], line[x.high * channels + c], x.share);
          };
          result.push_back(Mix(Mix(along_x(low_low), along_x(low_high), y.share),
                               Mix(along_x(high_low), along_x(high_high), y.share), z.share));
        }
      }
    }
  }
  return result;
}

std::vector<uint8_t> ResampledLabels(std::span<const uint8_t> labels, const VolumeSize& from,
                                     const VolumeSize& to) {
  RequireSize(labels.size(), from.voxels());
  if (from == to) return {labels.begin(), labels.end()};
  const std::vector<AxisPlace> depths = PlacesOf(from.depth, to.depth);
  const std::vector<AxisPlace> heights = PlacesOf(from.height, to.height);
  const std::vector<AxisPlace> widths = PlacesOf(from.width, to.width);
  std::vector<uint8_t> result;
  result.reserve(static_cast<size_t>(to.voxels()));
  // For each source voxel along x, the label that it has in all four rows, or kSeveral.
  constexpr int16_t kSeveral = -1;
  std::vector<int16_t> columns(static_cast<size_t>(from.width));
  for (size_t z = 0; z < depths.size(); ++z) {
    for (size_t y = 0; y < heights.size(); ++y) {
      const auto row = [&](int64_t depth, int64_t height) {
        return labels.data() + (depth * from.height + height) * from.width;
      };
      const uint8_t* const low_low = row(depths[z].low, heights[y].low);
      const uint8_t* const low_high = row(depths[z].low, heights[y].high);
      const uint8_t* const high_low = row(depths[z].high, heights[y].low);
      const uint8_t* const high_high = row(depths[z].high, heights[y].high);
      for (size_t x = 0; x < columns.size(); ++x) {
        const uint8_t label = low_low[x];
        const bool alike = low_high[x] == label && high_low[x] == label && high_high[x] == label;
        columns[x] = alike ? label : kSeveral;
      }
      for (size_t x = 0; x < widths.size(); ++x) {
        const int64_t low = widths[x].low, high = widths[x].high;
        const int16_t label = columns[static_cast<size_t>(low)];
        if (label != kSeveral && label == columns[static_cast<size_t>(high)]) {
          result.push_back(static_cast<uint8_t>(label));
          continue;
        }
        const Corners corners = {low_low[low],  low_low[high],  low_high[low],  low_high[high],
                                 high_low[low], high_low[high], high_high[low], high_high[high]};
        result.push_back(
            LargestShare(corners, depths[z], heights[y], widths[x], (z + y + x) % 2 == 0));
      }
    }
  }
  return result;
}

LikeliestClasses::LikeliestClasses(const VolumeSize& from, const VolumeSize& to, int64_t classes)
    : classes_(static_cast<size_t>(classes)),
      row_(static_cast<size_t>(from.width * classes)),
      depths_(PlacesOf(from.depth, to.depth)),
      heights_(PlacesOf(from.height, to.height)),
      widths_(PlacesOf(from.width, to.width)),
      previous_(static_cast<size_t>(from.height) * row_),
      mixed_(row_) {
  result_.reserve(static_cast<size_t>(to.voxels()));
}

int64_t LikeliestClasses::Bytes(const VolumeSize& from, const VolumeSize& to, int64_t classes) {
  const int64_t scores = (from.height + 1) * from.width * classes;
  return scores * int64_t{sizeof(float)} +
         (to.depth + to.height + to.width) * int64_t{sizeof(AxisPlace)};
}

void LikeliestClasses::AddSlice(std::span<const float> scores) {
  RequireSize(scores.size(), std::ssize(previous_));
  const int64_t slice = slices_++;
  for (; done_ < std::ssize(depths_); ++done_) {
    const AxisPlace& z = depths_[static_cast<size_t>(done_)];
    if (z.high > slice) break;
    AddClasses(z.share, z.low < slice ? previous_ : scores, scores);
  }
  std::ranges::copy(scores, previous_.begin());
}

void LikeliestClasses::AddClasses(float share, std::span<const float> low,
                                  std::span<const float> high) {
  for (const AxisPlace& y : heights_) {
    const auto row = [&](std::span<const float> slice, int64_t height) {
      return slice.data() + static_cast<size_t>(height) * row_;
    };
    const float* const low_low = row(low, y.low);
    const float* const low_high = row(low, y.high);
    const float* const high_low = row(high, y.low);
    const float* const high_high = row(high, y.high);
    for (size_t i = 0; i < row_; ++i) {
      mixed_[i] = Mix(Mix(low_low[i], low_high[i], y.share),
                      Mix(high_low[i], high_high[i], y.share), share);
    }
    for (const AxisPlace& x : widths_) {
      const float* const left = mixed_.data() + static_cast<size_t>(x.low) * classes_;
      const float* const right = mixed_.data() + static_cast<size_t>(x.high) * classes_;
      size_t best = 0;
      float largest = Mix(left[0], right[0], x.share);
      for (size_t k = 1; k < classes_; ++k) {
        const float score = Mix(left[k], right[k], x.share);
        if (score > largest) {
          largest = score;
          best = k;
        }
      }
      result_.push_back(static_cast<uint8_t>(best));
    }
  }
}

std::vector<uint8_t> LikeliestClasses::Take() {
  if (done_ < std::ssize(depths_)) throw InternalError("classes of a volume without all slices");
  return std::move(result_);
}

}  // namespace plimsoll::data
