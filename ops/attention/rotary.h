// Rotary position embedding (Su et al. 2021, "RoFormer", §3.2), applied to packed queries and keys.
//
//   qkv[B,T,(H+2G)·hd]: H query heads, then G key heads, then G value heads, hd values each
//   rotary (qkv, first? i32[1], positions? i32[B,T]): in each query and key head, for i < hd/2 and
//   the position p of a token, positions[b,t] or else first + t (`first` absent: 0):
//     (x[i], x[i+hd/2])  →  (x[i]·cos θ − x[i+hd/2]·sin θ,  x[i+hd/2]·cos θ + x[i]·sin θ)
//     θ = p · theta^(−2i/hd), with scaling slower
// The halves are paired as in Hugging Face's Llama; values pass unchanged.
//
// The angles are float32 in either dtype, as in Hugging Face's Llama: trained weights expect their
// rounding. The gradient is the inverse rotation. May work in place. A call has `first` or
// `positions`, not both; a position outside [0, T) is an InternalError when the op runs on a CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// Slows rotations down, so that a model reads longer texts: all rotations alike (Chen et al. 2023;
// in Hugging Face rope_type "linear"), or only the slow ones (Llama 3, "llama3").
struct RotaryScaling {
  enum class Kind { kLinear, kLlama3 };
  Kind kind = Kind::kLlama3;
  double factor = 8;
  double low_freq_factor = 1;        // llama3
  double high_freq_factor = 4;       // llama3
  int64_t original_sequence = 8192;  // llama3
};

struct RotaryOptions {
  int64_t heads = 0;     // H
  int64_t kv_heads = 0;  // G
  double theta = 10000;
  std::optional<RotaryScaling> scaling = std::nullopt;
};

// `positions`: of each token in its document, as in attention.h; kNoTensor: t.
graph::Value Rotary(graph::Builder& g, graph::Value qkv, const RotaryOptions& options,
                    graph::Value positions = graph::kNoTensor, std::string_view name = "");

}  // namespace plimsoll::ops
