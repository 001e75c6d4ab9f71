// The specification of a decoder-only language model: its family and sizes. Fields have the names
// of their settings, so that an error can name them. Widths are in elements, sequences in tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/dropout_rates.h"
#include "ops/loss/preference_loss.h"

namespace plimsoll::models {

enum class Activation { kGeluTanh, kGeluErf };  // "gelu_tanh", "gelu_erf"

// Stretches the wavelengths of the rotary embedding, so that a model reads longer texts than it was
// trained on. A pair is the two elements of a head that rotate together. kLinear: all wavelengths
// are multiplied by `factor`, as if positions were divided by it. kLlama3: wavelengths longer than
// original_sequence / low_freq_factor are multiplied by `factor`, those shorter than
// original_sequence / high_freq_factor do not change, and those in between are interpolated. kYarn:
// interpolates by the pairs' numbers instead, between the pairs that make beta_fast and beta_slow
// turns in original_sequence. kLongrope: each pair's wavelength has its own factor, in long_factor
// for programs whose texts may be longer than original_sequence, else in short_factor.
struct RopeScaling {
  enum class Type { kLinear, kLlama3, kYarn, kLongrope };  // Hugging Face's rope_type
  Type type = Type::kLlama3;
  double factor = 8.0;            // all types but kLongrope
  double low_freq_factor = 1.0;   // kLlama3
  double high_freq_factor = 4.0;  // kLlama3
  int64_t original_sequence = 8192;
  double attention_factor = 1.0;          // kYarn, kLongrope: factor of cosines and sines
  double beta_fast = 32.0;                // kYarn
  double beta_slow = 1.0;                 // kYarn
  bool truncate = true;                   // kYarn: the ramp begins and ends at integer pair numbers
  std::vector<double> short_factor = {};  // kLongrope: a factor for each pair
  std::vector<double> long_factor = {};

  static RopeScaling Linear(double factor) { return {.type = Type::kLinear, .factor = factor}; }
  // A YaRN scaling with the attention factor of Peng et al. 2023, equation 22.
  static RopeScaling Yarn(double factor, int64_t original_sequence);

  bool operator==(const RopeScaling&) const = default;
};

struct ModelSpec {
  std::string family = "gpt2";
  int64_t layers = 0;
  int64_t width = 0;         // D
  int64_t heads = 0;         // H, the number of query heads
  int64_t kv_heads = 0;      // G, the number of key-value heads; divides H. gpt2: H
  int64_t head_width = 0;    // hd. gpt2: D / H
  int64_t ffn_width = 0;     // F, the inner width of the feed-forward network
  int64_t vocab = 0;         // V
  int64_t max_sequence = 0;  // P. gpt2: rows of the position table; others: longest sequence
  // Dropout rates. llama, qwen2, qwen3, mistral, phi3: attention probabilities only, as in their
  // reference implementations; the other rates are equal.
  DropoutRates dropout;
  bool tied = false;  // the head's weight is the token embedding
  // Which linear layers of attention have a bias. gpt2: all. qwen2: q, k, v. llama, qwen3: q, k, v,
  // proj if set. mistral, phi3: none.
  bool attention_bias = false;
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;  // used by all families but gpt2
  // Used by all families but gpt2; phi3: nullopt or kLongrope.
  std::optional<RopeScaling> rope_scaling;
  int64_t rotary_width = 0;  // phi3: the elements of a head that rotate; 0: all
  // mistral, phi3, gemma2, gemma3_text: the sliding window, in keys, including the query's own.
  // nullopt: full attention.
  std::optional<int64_t> window;
  // gemma2, gemma3_text: for each layer, whether it has the sliding window; other layers have full
  // attention. Empty: all layers have the window.
  std::vector<bool> windowed;
  // gemma3_text: rope_theta of sliding-window layers, to which rope_scaling does not apply.
  std::optional<double> rope_local_base_freq;
  // gemma2, gemma3_text: attention scores are divided by the square root of this number; 0: by that
  // of head_width.
  int64_t query_pre_attn_scalar = 0;
  // Soft caps: a score s becomes cap · tanh(s / cap); 0: no soft cap. gemma2: of attention scores.
  double attn_logit_softcapping = 0;
  double final_logit_softcapping = 0;             // gemma2, gemma3_text: soft cap of the logits
  Activation activation = Activation::kGeluTanh;  // used by gpt2 only
  double init_std = 0.02;

  // Rows of training and evaluation hold several documents: attention does not cross their borders,
  // and positions start again at 0. The program then has the input "positions".
  bool documents_apart = false;
  // Training and evaluation learn preferences. Rows hold pairs of documents, and documents_apart is
  // set; the program then has the inputs "positions" and "reference".
  std::optional<ops::PreferenceOptions> preference;
  bool draws_dropout = true;  // false: training draws no masks, whatever the rates

  // Ids of special tokens, which are copied between checkpoint folders. Absent or empty: unknown.
  std::optional<int64_t> begin_token;
  std::vector<int64_t> end_tokens;

  bool operator==(const ModelSpec&) const = default;
};

// Why a spec is invalid: the field at fault, and a reason that names the allowed values.
struct SpecProblem {
  std::string field;
  std::string reason;
};
std::optional<SpecProblem> FindProblem(const ModelSpec& spec);

}  // namespace plimsoll::models
