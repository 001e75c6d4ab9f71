// Text from a model: the prompt is continued token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/snapshot/weight_source.h"
#include "trainer/step/session.h"
#include "trainer/text/tokenizer.h"

namespace plimsoll::trainer {

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 0;         // 0: all
  uint64_t seed = 1337;
};
GenerateOptions GenerateFrom(const config::SampleConfig& sample);

struct Generated {
  std::vector<std::string> texts;  // prompt and continuation of each row
  int64_t prompt_tokens = 0;       // of a row
  int64_t tokens = 0;              // drawn, of all rows together
  double prompt_seconds = 0;       // until the first token was drawn
  double seconds = 0;              // for all others
};

// One continuation per row of a session that is compiled for generating, in parallel. Each is seen
// through its last tokens, as many as the session has context. `stream`, when given, receives row
// 0's text as it appears, whole UTF-8 sequences only. A row ends early at the tokenizer's
// end-of-text token. NotFinite when the logits hold NaN or infinity.
Generated Generate(Session& session, const data::Tokenizer& tokenizer,
                   const GenerateOptions& options,
                   const std::function<void(const std::string&)>& stream = nullptr);

// `plimsoll generate`. The folder is a run's (config.yaml), a snapshot's or a Hugging Face
// checkpoint's.
struct GenerateCommand {
  std::string folder;
  WeightChoice choice;                // of what a run has left
  std::vector<std::string> sets;      // overrides of the run's configuration
  std::optional<std::string> prompt;  // instead of the configuration's
  std::string dtype = "fp32";         // of weights, activations and cache: fp32, bf16, fp16
  std::string tokenizer;              // empty: the run's, or the folder's tokenizer.json
};
// Writes the text to stdout as it appears, and to stderr what it took. UserError when the model or
// its tokenizer cannot be read, or its logits are no numbers (NotFinite).
void RunGenerate(const GenerateCommand& command);

}  // namespace plimsoll::trainer
