// Draws the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace plimsoll::trainer {

class Sampler {
 public:
  // temperature 0 takes the likeliest token; top_k 0 and top_p 1 keep all.
  Sampler(double temperature, int64_t top_k, double top_p, uint64_t seed)
      : temperature_(temperature), top_k_(top_k), top_p_(top_p), random_(seed) {}

  // Draws from softmax(logits / temperature), restricted to the top_k largest, and of these to the
  // fewest that together have at least the share top_p of their probability (Holtzman et al. 2020,
  // section 3.1). Draws only ids below `limit`: a padded vocabulary has ids without a meaning.
  int32_t Draw(std::span<const float> logits, int64_t limit);

 private:
  // Leaves in `order_` the fewest ids with that share of the weights, the likeliest first.
  void KeepNucleus(double total);

  double temperature_;
  int64_t top_k_;
  double top_p_;
  std::mt19937_64 random_;
  std::vector<int32_t> order_;
  std::vector<double> weights_;  // of the ids in `order_`
  std::vector<std::pair<double, int32_t>> heap_;
};

}  // namespace plimsoll::trainer
