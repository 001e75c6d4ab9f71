#include "data/volumes/synthetic_volume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"
#include "data/sample_random.h"

namespace plimsoll::data {
namespace {

// Purposes of random numbers.
constexpr uint64_t kShapes = 0, kBackground = 1, kNoise = 2;

constexpr int64_t kOne = 4096;  // 1 in fixed point, with 12 fractional bits

// The background interpolates random values on a lattice of 16 voxels, each within ±2.
constexpr int kLatticeBits = 4;
constexpr int64_t kLattice = int64_t{1} << kLatticeBits;
constexpr int64_t kAmplitude = 2 * kOne;

// Intensities of objects, relative to the background: the first pair of classes is 1.5 and 2.25
// above it, the next pair as much below it, and so on with increasing distance, up to 1.5 more.
// Each object adds its own random value within ±0.5.
constexpr int64_t kFirstLevel = 3 * kOne / 2, kSecondLevel = 9 * kOne / 4;
constexpr int64_t kLevelsRange = 3 * kOne / 2, kOwnLevel = kOne / 2;

constexpr int64_t kMostObjects = 3;  // objects of each class

struct Object {
  int64_t label = 0;
  std::array<int64_t, 3> first, extent;  // first voxel and size along D, H, W
};

bool IsEllipsoid(int64_t label) { return label % 2 == 1; }

Object DrawObject(int64_t label, const VolumeSize& size, SampleRandom& random) {
  Object object{.label = label, .first = {}, .extent = {}};
  const int64_t sides[] = {size.depth, size.height, size.width};
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t side = sides[axis];
    // An ellipsoid takes a fourth to a half of the volume's side, a box a fifth to two fifths.
    const int64_t parts = IsEllipsoid(label) ? 4 : 5;
    const int64_t least = std::max<int64_t>(1, side / parts);
    const int64_t most = std::max(least, 2 * side / parts);
    object.extent[axis] = side == 1 ? 1 : least + random.Below(most - least + 1);
    object.first[axis] = random.Below(side - object.extent[axis] + 1);
  }
  return object;
}

// (distance of a voxel's centre from the object's centre / half the object's extent)² along an
// axis, with 20 fractional bits.
constexpr int64_t kRadius = int64_t{1} << 20;
int64_t SquaredRadius(const Object& object, size_t axis, int64_t voxel) {
  const int64_t extent = object.extent[axis];
  const int64_t distance = 2 * (voxel - object.first[axis]) + 1 - extent;  // in half voxels
  return distance * distance * kRadius / (extent * extent);
}

// Writes `value` at the object's voxels, over earlier values.
void Paint(const Object& object, const VolumeSize& size, uint16_t value,
           std::span<uint16_t> cover) {
  const auto end = [&](size_t axis) { return object.first[axis] + object.extent[axis]; };
  for (int64_t d = object.first[0]; d < end(0); ++d) {
    for (int64_t h = object.first[1]; h < end(1); ++h) {
      uint16_t* const row = cover.data() + (d * size.height + h) * size.width;
      if (!IsEllipsoid(object.label)) {
        std::fill(row + object.first[2], row + end(2), value);
        continue;
      }
      const int64_t left = kRadius - SquaredRadius(object, 0, d) - SquaredRadius(object, 1, h);
      for (int64_t w = object.first[2]; w < end(2); ++w) {
        if (SquaredRadius(object, 2, w) <= left) row[w] = value;
      }
    }
  }
}

// The intensity of an object without its own random value. Each channel orders the classes
// differently, so that an additional channel adds information.
int64_t LevelOf(int64_t label, int64_t channel, int64_t classes) {
  const int64_t place = (label - 1 + channel) % (classes - 1), pair = place / 2;
  const int64_t furthest = (classes - 2) / 4;
  const int64_t level = (place % 2 == 0 ? kFirstLevel : kSecondLevel) +
                        pair / 2 * kLevelsRange / std::max<int64_t>(3, furthest);
  return pair % 2 == 0 ? level : -level;
}

// Smooth noise for consecutive voxels of a row.
class BackgroundRow {
 public:
  BackgroundRow(uint64_t key, int64_t d, int64_t h) : key_(key), d_(d), h_(h) {}

  int64_t At(int64_t w) {
    const int64_t part = w % kLattice;
    if (part == 0) {
      left_ = w == 0 ? Between(0) : right_;
      right_ = Between(w / kLattice + 1);
    }
    return (left_ * (kLattice - part) + right_ * part) >> kLatticeBits;
  }

 private:
  // Interpolates between the four lattice points around (d, h) in a column of the lattice.
  int64_t Between(int64_t column) const {
    const int64_t d = d_ / kLattice, h = h_ / kLattice;
    const int64_t in_d = d_ % kLattice, in_h = h_ % kLattice;
    const auto along_h = [&](int64_t at) {
      return Point(at, h, column) * (kLattice - in_h) + Point(at, h + 1, column) * in_h;
    };
    return (along_h(d) * (kLattice - in_d) + along_h(d + 1) * in_d) >> (2 * kLatticeBits);
  }
  int64_t Point(int64_t d, int64_t h, int64_t w) const {
    const uint64_t place = (static_cast<uint64_t>(d) << 42) | (static_cast<uint64_t>(h) << 21) |
                           static_cast<uint64_t>(w);
    return static_cast<int64_t>(Below(Hash(key_, place), 2 * kAmplitude + 1)) - kAmplitude;
  }

  uint64_t key_;
  int64_t d_, h_;
  int64_t left_ = 0, right_ = 0;
};

// Noise of standard deviation 0.4: the sum of four uniform 16-bit numbers.
int64_t Noise(uint64_t random) {
  constexpr int64_t kMean = 2 * 65535, kScale = 2838;  // 0.4 √3 kOne
  int64_t sum = -kMean;
  for (int i = 0; i < 4; ++i) sum += static_cast<int64_t>((random >> (16 * i)) & 0xffff);
  return (sum * kScale) >> 16;
}

}  // namespace

std::vector<std::string> SyntheticClassNames(int64_t classes) {
  std::vector<std::string> names = {"background"};
  for (int64_t label = 1; label < classes; ++label) {
    names.push_back(
        fmt::format("{} {}", IsEllipsoid(label) ? "ellipsoid" : "box", (label + 1) / 2));
  }
  return names;
}

void FillSyntheticVolume(const SyntheticVolumeOptions& options, uint64_t seed, int64_t number,
                         std::span<float> voxels, std::span<int32_t> labels) {
  const VolumeSize& size = options.size;
  const int64_t channels = options.channels, classes = options.classes;
  // [D,H,W]: 1 + the object's number; 0: no object.
  static thread_local std::vector<uint16_t> cover;
  static thread_local std::vector<int32_t> label_of;
  static thread_local std::vector<int64_t> level_of;  // indexed by cover and channel
  cover.assign(static_cast<size_t>(size.voxels()), 0);
  label_of.assign(1, 0);
  level_of.assign(static_cast<size_t>(channels), 0);

  // Every class has a first object before any has a second one.
  SampleRandom random(seed, number, kShapes);
  for (int64_t round = 0; round < kMostObjects; ++round) {
    for (int64_t label = 1; label < classes; ++label) {
      if (round > 0 && random.Below(2) == 0) continue;
      const Object object = DrawObject(label, size, random);
      Paint(object, size, static_cast<uint16_t>(label_of.size()), cover);
      label_of.push_back(static_cast<int32_t>(label));
      for (int64_t channel = 0; channel < channels; ++channel) {
        level_of.push_back(LevelOf(label, channel, classes) + random.Below(2 * kOwnLevel + 1) -
                           kOwnLevel);
      }
    }
  }

  std::ranges::transform(cover.begin(), cover.begin() + std::ssize(labels), labels.begin(),
                         [&](uint16_t object) { return label_of[object]; });
  if (voxels.empty()) return;
  const uint64_t background = Hash(seed, static_cast<uint64_t>(number), kBackground);
  const uint64_t noise = Hash(seed, static_cast<uint64_t>(number), kNoise);
  for (int64_t c = 0; c < channels; ++c) {
    const uint64_t own_background = Hash(background, static_cast<uint64_t>(c));
    int64_t voxel = 0;
    for (int64_t d = 0; d < size.depth; ++d) {
      for (int64_t h = 0; h < size.height; ++h) {
        BackgroundRow row(own_background, d, h);
        for (int64_t w = 0; w < size.width; ++w, ++voxel) {
          const int64_t at = voxel * channels + c;
          const auto object = static_cast<int64_t>(cover[static_cast<size_t>(voxel)]);
          const int64_t value = row.At(w) + level_of[static_cast<size_t>(object * channels + c)] +
                                Noise(Hash(noise, static_cast<uint64_t>(at)));
          voxels[static_cast<size_t>(at)] = static_cast<float>(value) / kOne;
        }
      }
    }
  }
}

Volume MakeSyntheticVolume(const SyntheticVolumeOptions& options, uint64_t seed, int64_t number) {
  const auto voxels = static_cast<size_t>(options.size.voxels());
  Volume volume{.name = fmt::format("volume_{:04}", number),
                .size = options.size,
                .channels = options.channels,
                .spacing = {1, 1, 1},
                .voxels = std::vector<float>(voxels * static_cast<size_t>(options.channels)),
                .labels = {}};
  std::vector<int32_t> labels(voxels);
  FillSyntheticVolume(options, seed, number, volume.voxels, labels);
  volume.labels.assign(labels.begin(), labels.end());
  return volume;
}

}  // namespace plimsoll::data
