// Text from a model: the prompt is continued token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/data/tokenizer.h"
#include "trainer/session.h"

namespace plimsoll::trainer {

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 0;         // 0: all
  uint64_t seed = 1337;
};
GenerateOptions GenerateFrom(const config::SampleConfig& sample);

// One continuation per row of the session's program for logits, in parallel. The context is the
// last T tokens. `stream`, when given, receives row 0's text as it appears, whole UTF-8 sequences
// only. A row ends early at the tokenizer's end-of-text token. Returns prompt and continuation.
std::vector<std::string> Generate(Session& session, const data::Tokenizer& tokenizer,
                                  const GenerateOptions& options,
                                  const std::function<void(const std::string&)>& stream = {});

// `plimsoll generate RUN`: RUN is a run directory or a Hugging Face folder. With a run directory
// the tokenizer and the defaults of `options` are those of its config.
struct GenerateCommand {
  std::string folder;
  std::vector<std::string> sets;      // sample.* of the run's config: "sample.tokens=50"
  std::optional<std::string> prompt;  // overrides the config's
  std::string tokenizer;              // overrides; needed for a Hugging Face folder without one
};
void RunGenerate(const GenerateCommand& command);

}  // namespace plimsoll::trainer
