// Rotary position embedding (Su et al. 2021, "RoFormer", §3.2), applied to packed queries and keys.
//
//   qkv[B,T,(H+2G)·hd]: H query heads, then G key heads, then G value heads, hd values each
//   rotary (qkv, first? i32[1], positions? i32[B,T]): in the first r elements of each query and key
//   head, for i < r/2 and the position p of a token, positions[b,t] or else first + t (`first`
//   absent: 0):
//     (x[i], x[i+r/2])  →  a · (x[i]·cos θ − x[i+r/2]·sin θ,  x[i+r/2]·cos θ + x[i]·sin θ)
//     θ = p · theta^(−2i/r); RotaryScaling makes rotations slower
// r is hd, and the attention factor a is 1, unless the options say otherwise. The halves are paired
// as in Hugging Face's Llama; the head's other elements and values pass unchanged.
//
// The angles are float32 in either dtype, as in Hugging Face's Llama: trained weights expect their
// rounding. The gradient is the inverse rotation, also times a. May work in place. A call has
// `first` or `positions`, not both; a position outside [0, T) is an InternalError when the op runs
// on a CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/builder.h"

namespace plimsoll::ops {

// Makes rotations slower, so that a model reads longer texts: all rotations by one factor (Chen et
// al. 2023; in Hugging Face rope_type "linear"), only the slow ones (Llama 3, "llama3"; Peng et al.
// 2023, "YaRN: Efficient Context Window Extension of Large Language Models", section 3.2, "yarn"),
// or each pair by its own factor (Ding et al. 2024, "LongRoPE", "longrope").
struct RotaryScaling {
  enum class Kind { kLinear, kLlama3, kYarn, kByPair };
  Kind kind = Kind::kLlama3;
  double factor = 8;                 // for all kinds but kByPair
  double low_freq_factor = 1;        // for llama3
  double high_freq_factor = 4;       // for llama3
  int64_t original_sequence = 8192;  // for llama3 and yarn
  double beta_fast = 32;             // yarn: pairs with more turns in original_sequence are not
                                     // slowed
  double beta_slow = 1;              // yarn: pairs with fewer turns are slowed by `factor`
  bool truncate = true;              // yarn: the borders between both kinds of pairs are rounded to
                                     // whole pairs
  std::vector<double> stretch = {};  // kByPair: the factor of each of the r/2 pairs
  double attention_factor = 1;       // a, for all kinds
};

struct RotaryOptions {
  int64_t heads = 0;     // H
  int64_t kv_heads = 0;  // G
  double theta = 10000;
  std::optional<RotaryScaling> scaling = std::nullopt;
  int64_t rotary_width = 0;  // r, even and at most hd; 0: hd
};

// `positions`: the position of each token in its document, as in attention.h; kNoTensor: t.
graph::Value Rotary(graph::Builder& g, graph::Value qkv, const RotaryOptions& options,
                    graph::Value positions = graph::kNoTensor, std::string_view name = "");

}  // namespace plimsoll::ops
