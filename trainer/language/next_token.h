// Logits for the token that continues each of R texts, which grow token by token.
//
// The model sees the last C tokens of a text (CompileOptions::generate_context). While a text is no
// longer than C, the keys and values of its tokens stay in the cache: a new token takes one run of
// the program `decode`, a prompt one run of `prefill` for every 128 tokens. In a longer text every
// position shifts with each new token, so that the cache is no longer valid: the last C tokens are
// then prefilled again each time. The logits equal those of a program that sees the last C tokens
// as a whole, up to rounding.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "trainer/step/session.h"

namespace plimsoll::trainer {

class NextToken {
 public:
  // For texts unrelated to those of earlier objects on the session. The session must be compiled
  // for generating, and outlive this.
  explicit NextToken(Session& session);

  int64_t rows() const { return rows_; }

  // [R,V], valid until the session runs again. The R texts must have the same length, at least 1,
  // and start with the texts of the last call.
  std::span<const float> Logits(std::span<const std::vector<int32_t>> texts);

 private:
  void SetLast(int64_t position);  // whose logits are wanted
  void RunWhole(std::span<const std::vector<int32_t>> texts, int64_t first, int64_t count);
  // Appends tokens [first + cached_, first + count) of the texts to the cache.
  void Extend(std::span<const std::vector<int32_t>> texts, int64_t first, int64_t count);

  Session& session_;
  int64_t rows_;
  int64_t context_;                                // C
  int64_t first_ = 0;                              // index in the text of the cache's first token
  int64_t cached_ = 0;                             // tokens in the cache
  std::vector<int32_t> prefill_, decode_, whole_;  // tokens of the programs, as last handed in
  std::vector<int32_t> last_;
  std::vector<float> logits_;
};

// Draws the next token from logits.
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
