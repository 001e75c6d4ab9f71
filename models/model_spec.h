// What defines a decoder-only language model: its family and sizes. Fields have the names of their
// settings, so that an error can name them. Widths are in elements, sequences in tokens.
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
// trained on. kLinear: all wavelengths grow by `factor`, as if positions were divided by it.
// kLlama3: wavelengths longer than original_sequence / low_freq_factor grow by `factor`, those
// shorter than original_sequence / high_freq_factor stay, and those between are interpolated.
// kYarn: the same by the pairs' numbers, between those that make beta_fast and beta_slow turns in
// original_sequence. kLongrope: each pair's wavelength grows by its own factor, of long_factor in
// programs whose texts may be longer than original_sequence, else of short_factor.
struct RopeScaling {
  enum class Type { kLinear, kLlama3, kYarn, kLongrope };  // Hugging Face's rope_type
  Type type = Type::kLlama3;
  double factor = 8.0;            // not of kLongrope
  double low_freq_factor = 1.0;   // kLlama3
  double high_freq_factor = 4.0;  // kLlama3
  int64_t original_sequence = 8192;
  double attention_factor = 1.0;          // kYarn, kLongrope: of cosines and sines
  double beta_fast = 32.0;                // kYarn
  double beta_slow = 1.0;                 // kYarn
  bool truncate = true;                   // kYarn: the ramp begins and ends at whole pairs
  std::vector<double> short_factor = {};  // kLongrope: one for each pair
  std::vector<double> long_factor = {};

  static RopeScaling Linear(double factor) { return {.type = Type::kLinear, .factor = factor}; }
  // With the attention factor of Peng et al. 2023, equation 22.
  static RopeScaling Yarn(double factor, int64_t original_sequence);

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
  // llama and its likes (qwen2, qwen3, mistral, phi3): of attention probabilities only, as in their
  // reference implementations; the other rates are equal.
  DropoutRates dropout;
  bool tied = false;  // the head is the token embedding
  // gpt2: always. qwen2: always, on q, k, v. llama, qwen3: on q, k, v, proj. mistral, phi3: never.
  bool attention_bias = false;
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;              // llama and its likes
  std::optional<RopeScaling> rope_scaling;  // llama and its likes; phi3: none or kLongrope
  int64_t rotary_width = 0;                 // phi3: the elements of a head that turn; 0: all
  // mistral, phi3, gemma2, gemma3_text: how many keys a query sees, the latest and its own;
  // nullopt: all earlier ones.
  std::optional<int64_t> window;
  // gemma2, gemma3_text: by layer, whether its queries see the window; those of the others see all
  // earlier keys. Empty: all layers have the window.
  std::vector<bool> windowed;
  // gemma3_text: rope_theta of layers with the window, whose wavelengths rope_scaling leaves alone.
  std::optional<double> rope_local_base_freq;
  // gemma2, gemma3_text: scores of attention are divided by its square root; 0: by head_width's.
  int64_t query_pre_attn_scalar = 0;
  // Soft caps: s becomes cap · tanh(s / cap); 0: none. gemma2: of attention's scores.
  double attn_logit_softcapping = 0;
  double final_logit_softcapping = 0;             // gemma2, gemma3_text: of the logits
  Activation activation = Activation::kGeluTanh;  // gpt2
  double init_std = 0.02;

  // Rows of training and evaluation hold documents one after the other: attention does not cross
  // their borders, and positions begin anew. The program then has the input "positions".
  bool documents_apart = false;
  // Training and evaluation learn preferences: rows hold pairs of documents, which are kept apart
  // (documents_apart), and the program then has the inputs "positions" and "reference".
  std::optional<ops::PreferenceOptions> preference;

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
