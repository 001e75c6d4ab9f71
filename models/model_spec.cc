#include "models/model_spec.h"

#include <fmt/format.h>

#include <array>

namespace plimsoll::models {
namespace {

// Beyond any model, yet small enough that no product of sizes overflows 63 bits.
constexpr int64_t kMaxLayers = int64_t{1} << 13;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxFfnWidth = int64_t{1} << 22;
constexpr int64_t kMaxVocab = int64_t{1} << 30;
constexpr int64_t kMaxSequence = int64_t{1} << 30;

struct Range {
  const char* field;
  int64_t value;
  int64_t max;
};

std::optional<SpecProblem> FindFamilyProblem(const ModelSpec& spec) {
  if (spec.family == Family::kGpt2) {
    if (spec.kv_heads != spec.heads) {
      return SpecProblem{
          "kv_heads", fmt::format("gpt2 has one per head ({}), not {}", spec.heads, spec.kv_heads)};
    }
    if (spec.width % spec.heads != 0) {
      return SpecProblem{
          "heads", fmt::format("{} heads do not divide the width {}", spec.heads, spec.width)};
    }
    if (spec.head_width != spec.width / spec.heads) {
      return SpecProblem{"head_width", fmt::format("gpt2's is width / heads = {}, not {}",
                                                   spec.width / spec.heads, spec.head_width)};
    }
    if (!spec.attention_bias) {
      return SpecProblem{"attention_bias", "gpt2 always has it: leave it out or say true"};
    }
    if (spec.rope_scaling) {
      return SpecProblem{"rope_scaling", "gpt2 has no rotary embedding: leave it out"};
    }
    return std::nullopt;
  }
  if (spec.family == Family::kQwen2 && !spec.attention_bias) {
    return SpecProblem{"attention_bias",
                       "qwen2 always has it: leave it out, say true, or use family: llama"};
  }
  if (spec.head_width % 2 != 0) {
    return SpecProblem{"head_width", fmt::format("{} is odd, and the rotary embedding turns pairs",
                                                 spec.head_width)};
  }
  if (!(spec.rope_theta > 1)) return SpecProblem{"rope_theta", "must be above 1"};
  constexpr double kMaxRopeFactor = 1e6;
  if (const auto& scaling = spec.rope_scaling) {
    if (!(scaling->factor >= 1 && scaling->factor <= kMaxRopeFactor &&
          scaling->low_freq_factor > 0 && scaling->high_freq_factor > scaling->low_freq_factor &&
          scaling->original_sequence > 0)) {
      return SpecProblem{
          "rope_scaling",
          "needs a factor from 1 to 1e6, 0 < low_freq_factor < high_freq_factor and an "
          "original sequence above 0"};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(Family family) {
  constexpr std::array<std::string_view, 3> kNames = {"gpt2", "llama", "qwen2"};
  return kNames[static_cast<size_t>(family)];
}

std::optional<SpecProblem> FindProblem(const ModelSpec& spec) {
  const std::array<Range, 8> ranges = {{
      {"layers", spec.layers, kMaxLayers},
      {"width", spec.width, kMaxWidth},
      {"heads", spec.heads, kMaxWidth},
      {"kv_heads", spec.kv_heads, kMaxWidth},
      {"head_width", spec.head_width, kMaxWidth},
      {"ffn_width", spec.ffn_width, kMaxFfnWidth},
      {"vocab", spec.vocab, kMaxVocab},
      {"max_sequence", spec.max_sequence, kMaxSequence},
  }};
  for (const Range& range : ranges) {
    if (range.value < 1 || range.value > range.max) {
      return SpecProblem{range.field,
                         fmt::format("must be from 1 to {}, not {}", range.max, range.value)};
    }
  }
  if (spec.heads % spec.kv_heads != 0) {
    return SpecProblem{"kv_heads",
                       fmt::format("{} do not divide the {} heads", spec.kv_heads, spec.heads)};
  }
  if (spec.heads * spec.head_width > kMaxWidth) {
    return SpecProblem{"head_width", fmt::format("{} heads of {} are wider than {}", spec.heads,
                                                 spec.head_width, kMaxWidth)};
  }
  if (!(spec.dropout >= 0 && spec.dropout < 1)) {
    return SpecProblem{"dropout", fmt::format("must be from 0 to below 1, not {}", spec.dropout)};
  }
  if (!(spec.norm_eps > 0)) return SpecProblem{"norm_eps", "must be above 0"};
  if (!(spec.init_std > 0)) return SpecProblem{"init_std", "must be above 0"};
  return FindFamilyProblem(spec);
}

}  // namespace plimsoll::models
