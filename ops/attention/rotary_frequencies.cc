#include "ops/attention/rotary_frequencies.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;

// theta^(i/pairs).
float RotaryPower(double theta, int64_t i, int64_t pairs) {
  const float exponent = static_cast<float>(i) / static_cast<float>(pairs);
  return static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
}

// Llama 3's frequency: pairs with many turns within the original context are unchanged, those with
// few are slowed down, and those between are interpolated.
float Llama3Frequency(const Attributes& attributes, float frequency) {
  const double factor = attributes.GetReal("factor");
  const double low = attributes.GetReal("low_freq_factor");
  const double high = attributes.GetReal("high_freq_factor");
  const double original = static_cast<double>(attributes.GetInt("original_sequence"));
  const double turns = original * frequency / (2 * M_PI);
  const double keep = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return static_cast<float>((1 - keep) * frequency / factor + keep * frequency);
}

// YaRN's ramp of how much pairs are slowed down: from 0 for pairs that make beta_fast turns within
// the original context, to 1 for pairs that make beta_slow.
class YarnRamp {
 public:
  YarnRamp(const Attributes& attributes, int64_t pairs) {
    const double width = 2.0 * static_cast<double>(pairs);
    const double original = static_cast<double>(attributes.GetInt("original_sequence"));
    const double theta = attributes.GetReal("theta");
    const auto pair_of = [&](double turns) {
      return width * std::log(original / (turns * 2 * M_PI)) / (2 * std::log(theta));
    };
    double low = pair_of(attributes.GetReal("beta_fast"));
    double high = pair_of(attributes.GetReal("beta_slow"));
    if (attributes.GetBool("truncate")) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    // Hugging Face bounds `high` by the width, not by the number of pairs; trained weights expect
    // that.
    high = std::min(high, width - 1);
    if (low == high) high += 0.001;
    begin_ = static_cast<float>(low);
    length_ = static_cast<float>(high - low);
  }

  float operator()(int64_t pair) const {
    return std::clamp((static_cast<float>(pair) - begin_) / length_, 0.0f, 1.0f);
  }

 private:
  float begin_, length_;
};

// Parses the first factor of `word` and removes it.
double TakeStretch(std::string_view& word) {
  while (word.starts_with(' ')) word.remove_prefix(1);
  double factor = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, factor);
  if (error != std::errc() || !(factor > 0)) {
    throw InternalError("rotary: stretch has no positive factor at '" + std::string(word) + "'");
  }
  word.remove_prefix(static_cast<size_t>(rest - word.data()));
  return factor;
}

}  // namespace

int64_t RotaryWidth(const Attributes& attributes, int64_t head_width) {
  return attributes.Has("rotary_width") ? attributes.GetInt("rotary_width") : head_width;
}

float RotaryScale(const Attributes& attributes) {
  if (!attributes.Has("attention_factor")) return 1;
  return static_cast<float>(attributes.GetReal("attention_factor"));
}

void RotaryFrequencies(const Attributes& attributes, int64_t pairs, int64_t begin,
                       std::span<float> to) {
  const double theta = attributes.GetReal("theta");
  const auto fill = [&](auto&& frequency) {
    for (size_t i = 0; i < to.size(); ++i) {
      const int64_t pair = begin + static_cast<int64_t>(i);
      to[i] = frequency(pair, RotaryPower(theta, pair, pairs));
    }
  };
  if (attributes.Has("stretch")) {
    std::string_view word = attributes.GetWord("stretch");
    for (int64_t skipped = 0; skipped < begin; ++skipped) TakeStretch(word);
    fill([&](int64_t /*pair*/, float power) {
      return 1.0f / (static_cast<float>(TakeStretch(word)) * power);
    });
  } else if (attributes.Has("beta_fast")) {
    const YarnRamp slowed(attributes, pairs);
    const float factor = static_cast<float>(attributes.GetReal("factor"));
    fill([&](int64_t pair, float power) {
      const float stays = 1.0f - slowed(pair);
      return 1.0f / (factor * power) * (1.0f - stays) + 1.0f / power * stays;
    });
  } else if (attributes.Has("low_freq_factor")) {
    fill([&](int64_t /*pair*/, float power) { return Llama3Frequency(attributes, 1.0f / power); });
  } else if (attributes.Has("factor")) {
    const float factor = static_cast<float>(attributes.GetReal("factor"));
    fill([&](int64_t /*pair*/, float power) { return 1.0f / power / factor; });
  } else {
    fill([&](int64_t /*pair*/, float power) { return 1.0f / power; });
  }
}

std::string StretchWord(const std::vector<double>& stretch) {
  std::string word;
  for (const double factor : stretch) {
    char digits[32];
    const auto written = std::to_chars(digits, digits + sizeof(digits), factor);
    if (!word.empty()) word += ' ';
    word.append(digits, written.ptr);
  }
  return word;
}

int64_t StretchCount(const std::string& word) {
  int64_t count = 0;
  for (std::string_view rest = word; !rest.empty(); ++count) TakeStretch(rest);
  return count;
}

}  // namespace plimsoll::ops
