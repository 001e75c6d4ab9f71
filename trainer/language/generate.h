// Generates with a model: continues a prompt token by token, or makes images.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "trainer/config/run_config.h"
#include "trainer/language/generate_images.h"
#include "trainer/save_and_resume/weight_source.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

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

// `plimsoll generate`. The folder holds a run (config.yaml), a snapshot or a Hugging Face
// checkpoint.
struct GenerateCommand {
  std::string folder;
  WeightChoice choice;            // of the run's weights
  std::vector<std::string> sets;  // overrides of the run's configuration
  std::string dtype = "fp32";     // of weights, activations and cache: fp32, bf16, fp16

  // Of models that continue texts.
  std::optional<std::string> prompt;   // instead of the configuration's
  std::vector<std::string> stop;       // instead of the configuration's; empty: these
  std::string tokenizer;               // empty: the run's, or the folder's own
  std::vector<std::string> for_texts;  // the options given that only these models have: "--prompt"

  ImageOptions images;  // of models that make images
};
// Writes the text to stdout as it appears, and the time taken to stderr; or images to files
// (generate_images.h). UserError when the model or its tokenizer cannot be read, when options are
// for another kind of model, or when its numbers are not finite (NotFinite).
void RunGenerate(const GenerateCommand& command);

}  // namespace plimsoll::trainer
