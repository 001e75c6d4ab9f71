// What defines a decoder-only language model: its family and sizes. Fields have the names of their
// settings, so that an error can name them. Widths are in elements, sequences in tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/dropout_rates.h"

namespace plimsoll::models {

enum class Activation { kGeluTanh, kGeluErf };  // "gelu_tanh", "gelu_erf"

// Stretches the wavelengths of the rotary embedding, so that a model reads longer texts than it was
// trained on. kLinear: all wavelengths grow by `factor`, as if positions were divided by it.
// kLlama3: wavelengths longer than original_sequence / low_freq_factor grow by `factor`, those
// shorter than original_sequence / high_freq_factor stay, and those between are interpolated.
struct RopeScaling {
  enum class Type { kLinear, kLlama3 };  // Hugging Face's rope_type
  Type type = Type::kLlama3;
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_sequence = 8192;

  static RopeScaling Linear(double factor) { return {.type = Type::kLinear, .factor = factor}; }

  bool operator==(const RopeScaling&) const = default;
};

struct ModelSpec {
  std::string family = "gpt2";
  int64_t layers = 0;
  int64_t width = 0;         // D
  int64_t heads = 0;         // H, of the queries
  int64_t kv_heads = 0;      // G, of keys and values; divides H. gpt2: H
  int64_t head_width = 0;    // hd. gpt2: D / H
  int64_t ffn_width = 0;     // F, between the two halves of the feed-forward network
  int64_t vocab = 0;         // V
  int64_t max_sequence = 0;  // P, rows of gpt2's position table; the others' longest sequence
  // llama and its likes (qwen2, qwen3, mistral): of attention probabilities only, as in their
  // reference implementations; the other rates are equal.
  DropoutRates dropout;
  bool tied = false;  // the head is the token embedding
  // gpt2: always. qwen2: always, on q, k, v. llama, qwen3: on q, k, v, proj. mistral: never.
  bool attention_bias = false;
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;              // llama and its likes
  std::optional<RopeScaling> rope_scaling;  // llama and its likes
  // mistral: how many keys a query sees, the latest and its own; nullopt: all earlier ones.
  std::optional<int64_t> window;
  Activation activation = Activation::kGeluTanh;  // gpt2
  double init_std = 0.02;

  // Rows of training and evaluation hold documents one after the other: attention does not cross
  // their borders, and positions begin anew. The program then has the input "positions".
  bool documents_apart = false;

  // Ids of special tokens, carried between checkpoint folders; unknown when absent or empty.
  std::optional<int64_t> begin_token;
  std::vector<int64_t> end_tokens;

  bool operator==(const ModelSpec&) const = default;
};

// Why a spec describes no model: the field at fault, and a reason that says which values are
// allowed.
struct SpecProblem {
  std::string field;
  std::string reason;
};
std::optional<SpecProblem> FindProblem(const ModelSpec& spec);

}  // namespace plimsoll::models
