#include "trainer/language/sliding_window.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/volumes/volume_patches.h"

namespace plimsoll::trainer {
namespace {

constexpr double kSigma = 1.0 / 8;  // standard deviation as a fraction of the side
constexpr float kLeastWeight = 1e-3f;

std::vector<double> Gaussian(int64_t side) {
  const double sigma = kSigma * static_cast<double>(side);
  std::vector<double> weights;
  for (int64_t i = 0; i < side; ++i) {
    const double x = static_cast<double>(i) - static_cast<double>(side - 1) / 2;
    weights.push_back(std::exp(-x * x / (2 * sigma * sigma)));
  }
  return weights;
}

}  // namespace

std::vector<float> WindowWeights(const data::VolumeSize& patch) {
  const std::vector<double> along_h = Gaussian(patch.height), along_w = Gaussian(patch.width);
  std::vector<float> weights;
  weights.reserve(static_cast<size_t>(patch.voxels()));
  for (const double d : Gaussian(patch.depth)) {
    for (const double h : along_h) {
      for (const double w : along_w) {
        weights.push_back(std::max(kLeastWeight, static_cast<float>(d * h * w)));
      }
    }
  }
  return weights;
}

SlidingWindow::SlidingWindow(const data::VolumeSize& volume, const data::VolumeSize& patch,
                             std::span<const data::VolumeWindow> windows, int64_t classes,
                             Finished finished)
    : volume_(volume),
      patch_(patch),
      windows_(windows),
      classes_(static_cast<size_t>(classes)),
      finished_(std::move(finished)),
      slices_(Slices(volume, patch)),
      weights_(WindowWeights(patch)),
      sums_(static_cast<size_t>(slices_ * volume.height * volume.width * classes)),
      totals_(static_cast<size_t>(volume.height * volume.width)) {}

int64_t SlidingWindow::Slices(const data::VolumeSize& volume, const data::VolumeSize& patch) {
  return std::min(volume.depth, patch.depth);
}

int64_t SlidingWindow::Bytes(const data::VolumeSize& volume, const data::VolumeSize& patch,
                             int64_t classes) {
  const int64_t slice = volume.height * volume.width;
  return (Slices(volume, patch) * slice * classes + patch.voxels() + slice) *
         static_cast<int64_t>(sizeof(float));
}

std::span<float> SlidingWindow::Slice(int64_t depth) {
  const size_t size = static_cast<size_t>(volume_.height * volume_.width) * classes_;
  return std::span(sums_).subspan(static_cast<size_t>(depth % slices_) * size, size);
}

void SlidingWindow::FinishBefore(int64_t depth) {
  for (; first_ < std::min(depth, volume_.depth); ++first_) {
    DivideSums(first_);
    const std::span<float> slice = Slice(first_);
    finished_(slice);
    std::ranges::fill(slice, 0.0f);  // the memory now holds slice first_ + slices_
  }
}

void SlidingWindow::DivideSums(int64_t depth) {
  std::ranges::fill(totals_, 0.0f);
  for (const data::VolumeWindow& window : windows_.first(added_)) {
    const data::VoxelPlace& first = window.first;
    const data::VoxelBox box = data::CoveredBy(volume_, patch_, first);
    if (depth < box.first[0] || depth >= box.end[0]) continue;
    for (int64_t h = box.first[1]; h < box.end[1]; ++h) {
      const int64_t row = ((depth - first[0]) * patch_.height + h - first[1]) * patch_.width;
      for (int64_t w = box.first[2]; w < box.end[2]; ++w) {
        totals_[static_cast<size_t>(h * volume_.width + w)] +=
            weights_[static_cast<size_t>(row + w - first[2])];
      }
    }
  }
  float* sum = Slice(depth).data();
  for (const float total : totals_) {
    for (size_t k = 0; k < classes_; ++k) *sum++ /= total;
  }
}

void SlidingWindow::Add(std::span<const float> logits) {
  if (logits.size() != weights_.size() * classes_ || added_ == windows_.size()) {
    throw InternalError("logits of a window of another size, or of no window");
  }
  const data::VoxelPlace& first = windows_[added_].first;
  const data::VoxelBox box = data::CoveredBy(volume_, patch_, first);
  if (box.first[0] < first_) throw InternalError("a window that begins in a finished slice");
  FinishBefore(box.first[0]);
  ++added_;
  const auto row = static_cast<size_t>(std::max<int64_t>(0, box.end[2] - box.first[2]));
  for (int64_t d = box.first[0]; d < box.end[0]; ++d) {
    const std::span<float> slice = Slice(d);
    for (int64_t h = box.first[1]; h < box.end[1]; ++h) {
      const int64_t from =
          ((d - first[0]) * patch_.height + h - first[1]) * patch_.width + box.first[2] - first[2];
      const int64_t to = h * volume_.width + box.first[2];
      const float* const weight = weights_.data() + from;
      const float* logit = logits.data() + static_cast<size_t>(from) * classes_;
      float* sum = slice.data() + static_cast<size_t>(to) * classes_;
      for (size_t w = 0; w < row; ++w) {
        for (size_t k = 0; k < classes_; ++k) *sum++ += weight[w] * *logit++;
      }
    }
  }
}

void SlidingWindow::Finish() {
  if (added_ < windows_.size()) throw InternalError("a window has not been added");
  FinishBefore(volume_.depth);
}

}  // namespace plimsoll::trainer
