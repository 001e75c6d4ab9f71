// Draws the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace plimsoll::trainer {

class Sampler {
 public:
  // temperature 0 takes the likeliest token; top_k 0 keeps all.
  Sampler(double temperature, int64_t top_k, uint64_t seed)
      : temperature_(temperature), top_k_(top_k), random_(seed) {}

  // Draws from softmax(logits / temperature), restricted to the top_k largest. Draws only ids below
  // `limit`: a padded vocabulary has ids without a meaning.
  int32_t Draw(std::span<const float> logits, int64_t limit);

 private:
  double temperature_;
  int64_t top_k_;
  std::mt19937_64 random_;
  std::vector<int32_t> order_;
  std::vector<double> weights_;
};

}  // namespace plimsoll::trainer
