// Generates with a model: continues a prompt token by token, or makes images.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "trainer/config/run_config.h"
#include "trainer/language/generate_chat.h"
#include "trainer/language/generate_images.h"
#include "trainer/save_and_resume/weight_source.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// Logits for the token that continues each of R texts, which grow token by token.
//
// The model sees the last C tokens of a text (CompileOptions::generate_context). While a text is no
// longer than C, the keys and values of its tokens stay in the cache: a new token takes one run of
// the program `decode`, a prompt one run of `prefill` for every 128 tokens. In a longer text every
// position shifts with each new token, so that the cache is no longer valid: the last C tokens are
// then prefilled again each time. The logits equal those of a program that sees the last C tokens
// as a whole, up to rounding.
class NextToken {
 public:
  // For texts unrelated to those of earlier objects on the session. The session must be compiled
  // for generating, and outlive this.
  explicit NextToken(Session& session);

  int64_t rows() const { return rows_; }

  // [R,V], valid until the session runs again. The R texts must have the same length, at least 1.
  // The tokens that they begin with as those of the last call did are in the cache already.
  std::span<const float> Logits(std::span<const std::vector<int32_t>> texts);

 private:
  // How many tokens from `first` on the cache holds for these texts of `count` from there on.
  int64_t CachedOf(std::span<const std::vector<int32_t>> texts, int64_t first, int64_t count) const;
  void SetLast(int64_t position);  // whose logits are wanted
  void RunWhole(std::span<const std::vector<int32_t>> texts, int64_t first, int64_t count);
  // Appends tokens [first + cached_, first + count) of the texts to the cache.
  void Extend(std::span<const std::vector<int32_t>> texts, int64_t first, int64_t count);

  Session& session_;
  int64_t rows_;
  int64_t context_;                                // C
  int64_t first_ = 0;                              // index in the text of the cache's first token
  int64_t cached_ = 0;                             // tokens in the cache
  std::vector<std::vector<int32_t>> seen_;         // the texts of the last call
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

// Ends a text that appears piece by piece where one of some strings begins.
class StopText {
 public:
  // `stops` must outlive this; none of them is empty.
  explicit StopText(const std::vector<std::string>& stops) : stops_(stops) {}

  // Adds to the text, and returns what certainly belongs to it: everything before the first stop
  // string, except for an end that a stop string may begin with.
  std::string Push(std::string_view piece);
  // A stop string has appeared. Push() returns nothing any more.
  bool stopped() const { return stopped_; }
  // The end that was held back, once the text is known to go no further.
  std::string Finish();

 private:
  const std::vector<std::string>& stops_;
  std::string pending_;  // not returned yet
  bool stopped_ = false;
};

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;            // 0: always the likeliest token
  int64_t top_k = 0;                   // 0: all
  double top_p = 1;                    // 1: all
  std::vector<std::string> stop = {};  // strings that end a text, none of them empty
  std::vector<int32_t> ends = {};      // tokens that end a text, besides the tokenizer's own
  uint64_t seed = 1337;
};
GenerateOptions GenerateFrom(const config::SampleConfig& sample);

struct Generated {
  std::vector<std::string> texts;  // prompt and continuation of each row
  int64_t prompt_tokens = 0;       // of a row
  int64_t tokens = 0;              // drawn, of all rows together
  int64_t ended = 0;               // rows that ended before the last token they might have
  double prompt_seconds = 0;       // until the first token was drawn
  double seconds = 0;              // for all other tokens
};

// Generates one continuation per row of a session that is compiled for generating, in parallel. The
// model sees the last tokens of each text, as many as the session has context. `stream`, if given,
// receives row 0's text as it appears, in whole UTF-8 sequences. A row ends early at a token
// that ends texts, and before the first stop string in what is added to the prompt.
// NotFinite when the logits hold NaN or infinity.
Generated Generate(Session& session, const data::Tokenizer& tokenizer,
                   const GenerateOptions& options,
                   const std::function<void(const std::string&)>& stream = nullptr);

// The same after a prompt of one token or more, the same in each row; options.prompt is not used.
// Tokens that it begins with as the texts of earlier calls with `next` did are not computed again.
Generated Continue(NextToken& next, const data::Tokenizer& tokenizer,
                   const std::vector<int32_t>& prompt, const GenerateOptions& options,
                   const std::function<void(const std::string&)>& stream = nullptr);

// `plimsoll generate`. The folder holds a run (config.yaml), a snapshot or a Hugging Face
// checkpoint.
struct GenerateCommand {
  std::string folder;
  WeightChoice choice;            // of the run's weights
  std::vector<std::string> sets;  // overrides of the run's configuration
  // Of weights, activations and cache: fp32, bf16, fp16. Empty: DefaultDtype of models that
  // continue texts, fp32 of those that make images.
  std::string dtype;

  // Of models that continue texts.
  std::optional<std::string> prompt;   // instead of the configuration's
  std::vector<std::string> stop;       // instead of the configuration's; empty: these
  std::string tokenizer;               // empty: the run's, or the folder's own
  std::vector<std::string> for_texts;  // the options given that only these models have: "--prompt"

  ConversationOptions chat;  // of models that continue texts

  ImageOptions images;  // of models that make images
};
// Writes the text to stdout as it appears, and the time taken to stderr; or the answers of a
// conversation (generate_chat.h), or images to files (generate_images.h). UserError when the model
// or its tokenizer cannot be read, when options are for another kind of model, or when its numbers
// are not finite (NotFinite).
void RunGenerate(const GenerateCommand& command);

}  // namespace plimsoll::trainer
