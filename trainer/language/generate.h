// Generates with a model: continues a prompt token by token, or generates images.
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

// Computes the logits of the next token for each of R texts, which grow token by token.
//
// The model sees the last C tokens of a text (CompileOptions::generate_context). While a text has
// at most C tokens, the keys and values of its tokens stay in the cache: a new token takes one run
// of the program `decode`, a prompt one run of `prefill` for every 128 tokens. In a longer text
// every position shifts with each new token, which makes the cache invalid, so the last C tokens
// are prefilled again each time. The logits equal those of a program that sees the last C tokens at
// once, up to rounding.
class NextToken {
 public:
  // Starts with an empty cache. The session must be compiled for generating, and outlive this
  // object.
  explicit NextToken(Session& session);

  int64_t rows() const { return rows_; }

  // The logits [R,V], valid until the session runs again. The R texts must have equal lengths of at
  // least 1. Leading tokens that are unchanged since the last call are taken from the cache.
  std::span<const float> Logits(std::span<const std::vector<int32_t>> texts);

 private:
  // The number of tokens that the cache already holds for these texts, which have `count` tokens
  // from token `first` on.
  int64_t CachedOf(std::span<const std::vector<int32_t>> texts, int64_t first, int64_t count) const;
  void SetLast(int64_t position);  // selects the position whose logits to compute
  void RunWhole(std::span<const std::vector<int32_t>> texts, int64_t first, int64_t count);
  // Appends tokens [first + cached_, first + count) of the texts to the cache.
  void Extend(std::span<const std::vector<int32_t>> texts, int64_t first, int64_t count);

  Session& session_;
  int64_t rows_;
  int64_t context_;                         // C, the most tokens that the model sees
  int64_t first_ = 0;                       // index in the text of the cache's first token
  int64_t cached_ = 0;                      // number of tokens in the cache
  std::vector<std::vector<int32_t>> seen_;  // the texts of the last call
  // The tokens that each program read in its last run.
  std::vector<int32_t> prefill_, decode_, whole_;
  std::vector<int32_t> last_;
  std::vector<float> logits_;
};

// Draws the next token from logits.
class Sampler {
 public:
  // temperature 0 takes the most likely token; top_k 0 and top_p 1 keep all tokens.
  Sampler(double temperature, int64_t top_k, double top_p, uint64_t seed)
      : temperature_(temperature), top_k_(top_k), top_p_(top_p), random_(seed) {}

  // Draws from softmax(logits / temperature), restricted to the top_k largest. Among these, only
  // the fewest whose probabilities sum to at least the fraction top_p are drawn (Holtzman et al.
  // 2020, section 3.1). Only ids below `limit` are drawn, because a padded vocabulary has ids
  // without a meaning.
  int32_t Draw(std::span<const float> logits, int64_t limit);

 private:
  // Keeps in `order_` the fewest ids whose weights sum to the fraction top_p of `total`, from the
  // most likely id on.
  void KeepNucleus(double total);

  double temperature_;
  int64_t top_k_;
  double top_p_;
  std::mt19937_64 random_;
  std::vector<int32_t> order_;
  std::vector<double> weights_;  // weights of the ids in `order_`
  std::vector<std::pair<double, int32_t>> heap_;
};

// Ends a text, which arrives in pieces, before the first of some stop strings.
class StopText {
 public:
  // `stops` must outlive this object; none of them may be empty.
  explicit StopText(const std::vector<std::string>& stops) : stops_(stops) {}

  // Appends a chunk of text, and returns the text that no stop string can remove any more:
  // everything before the first stop string, except an end that could be the beginning of a stop
  // string.
  std::string Push(std::string_view piece);
  // Whether a stop string has appeared. Then Push() returns only empty strings.
  bool stopped() const { return stopped_; }
  // Returns the end that Push() held back. Call this when the text is complete.
  std::string Finish();

 private:
  const std::vector<std::string>& stops_;
  std::string pending_;  // text not returned yet
  bool stopped_ = false;
};

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;            // 0 means always the most likely token
  int64_t top_k = 0;                   // 0 means all tokens
  double top_p = 1;                    // 1: all tokens
  std::vector<std::string> stop = {};  // strings that end a text; none is empty
  std::vector<int32_t> ends = {};      // tokens that end a text, in addition to the tokenizer's own
  uint64_t seed = 1337;
};
GenerateOptions GenerateFrom(const config::SampleConfig& sample);

struct Generated {
  std::vector<std::string> texts;  // prompt and continuation of each row
  int64_t prompt_tokens = 0;       // number of prompt tokens in each row
  int64_t tokens = 0;              // number of tokens drawn in all rows
  int64_t ended = 0;               // number of rows that ended before the token limit
  double prompt_seconds = 0;       // time until the first token was drawn
  double seconds = 0;              // time for all other tokens
};

// Generates one continuation per row, in parallel. The session must be compiled for generating; its
// context limits the tokens that the model sees. `stream`, if given, receives row 0's text as the
// text grows, in complete UTF-8 sequences. A row ends at a token that ends texts, before the first
// stop string in the continuation, or at the token limit. Throws NotFinite if the logits contain
// NaN or infinity.
Generated Generate(Session& session, const data::Tokenizer& tokenizer,
                   const GenerateOptions& options,
                   const std::function<void(const std::string&)>& stream = nullptr);

// Like Generate, after a prompt of at least one token, the same in each row; options.prompt is not
// used. Leading tokens that earlier calls with `next` have processed are not computed again.
Generated Continue(NextToken& next, const data::Tokenizer& tokenizer,
                   const std::vector<int32_t>& prompt, const GenerateOptions& options,
                   const std::function<void(const std::string&)>& stream = nullptr);

// The options of `plimsoll generate`. The folder holds a run (config.yaml), a snapshot or a Hugging
// Face checkpoint.
struct GenerateCommand {
  std::string folder;
  WeightChoice choice;            // selects among the run's weights
  std::vector<std::string> sets;  // overrides of the run's configuration
  // The type of weights, activations and cache: fp32, bf16, fp16. Empty means DefaultDtype for
  // models that continue texts, fp32 for models that generate images.
  std::string dtype;

  // Options for models that continue texts.
  std::optional<std::string> prompt;  // replaces the configuration's prompt
  std::vector<std::string> stop;      // replaces the configuration's stop strings unless empty
  std::string tokenizer;              // empty means the run's, or the folder's own
  // Names of given options that only text models have: "--prompt".
  std::vector<std::string> for_texts;

  ConversationOptions chat;  // only for models that continue texts

  ImageOptions images;  // only for models that generate images
};
// Writes the text to stdout as it grows, and the time taken to stderr. For other uses: the answers
// of a conversation (generate_chat.h), or images to files (generate_images.h). Throws a UserError
// if the model or its tokenizer cannot be read, if options are for another kind of model, or if
// results are not finite (NotFinite).
void RunGenerate(const GenerateCommand& command);

}  // namespace plimsoll::trainer
