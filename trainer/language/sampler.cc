#include "trainer/language/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plimsoll::trainer {

void Sampler::KeepNucleus(double total) {
  heap_.clear();
  // Of equally likely ids the smaller one comes first.
  for (size_t i = 0; i < order_.size(); ++i) heap_.emplace_back(weights_[i], -order_[i]);
  std::make_heap(heap_.begin(), heap_.end());
  order_.clear();
  weights_.clear();
  for (double sum = 0; !heap_.empty() && (order_.empty() || sum < top_p_ * total);) {
    std::pop_heap(heap_.begin(), heap_.end());
    const auto [weight, id] = heap_.back();
    heap_.pop_back();
    order_.push_back(-id);
    weights_.push_back(weight);
    sum += weight;
  }
}

int32_t Sampler::Draw(std::span<const float> logits, int64_t limit) {
  const size_t count = std::min<size_t>(logits.size(), static_cast<size_t>(limit));
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0);
  auto likelier = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (temperature_ <= 0) return *std::min_element(order_.begin(), order_.end(), likelier);
  if (top_k_ > 0 && static_cast<size_t>(top_k_) < count) {
    std::nth_element(order_.begin(), order_.begin() + top_k_, order_.end(), likelier);
    order_.resize(top_k_);
    std::sort(order_.begin(), order_.end());
  }

  float largest = logits[order_[0]];
  for (int32_t id : order_) largest = std::max(largest, logits[id]);
  weights_.clear();
  double total = 0;
  for (int32_t id : order_) {
    weights_.push_back(std::exp((logits[id] - largest) / temperature_));
    total += weights_.back();
  }
  if (top_p_ < 1) {
    KeepNucleus(total);
    total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  }
  double draw = std::uniform_real_distribution<double>(0, total)(random_);
  for (size_t i = 0; i < order_.size(); ++i) {
    draw -= weights_[i];
    if (draw < 0) return order_[i];
  }
  return order_.back();
}

}  // namespace plimsoll::trainer
