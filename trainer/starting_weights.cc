#include "trainer/starting_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "adapters/peft.h"
#include "base/amounts.h"
#include "base/glob.h"
#include "base/message.h"
#include "models/huggingface.h"
#include "trainer/save_and_resume/read_snapshot.h"
#include "trainer/step/adapter.h"

namespace plimsoll::trainer {

std::string BaseChecksum(const config::RunConfig& config, Ranks& ranks) {
  if (!config.lora.asked() || config.model.init_from.empty()) return "";
  std::string checksum;
  const std::string problem = ranks.FirstProblem([&] {
    if (ranks.first()) checksum = models::WeightsChecksum(config.model.init_from);
  });
  if (!problem.empty()) throw UserError(problem);
  return ranks.Broadcast(checksum);
}

std::string StartingWeights::Text() const {
  if (resumed != nullptr) return "reading " + resumed->snapshot.path();
  if (!config.model.init_from.empty()) return "reading weights of " + config.model.init_from;
  return fmt::format("making {} weights",
                     FormatCount(static_cast<double>(model.parameter_count())));
}

void StartingWeights::SayFresh(const std::vector<std::string>& fresh) const {
  if (fresh.empty() || !ranks.first()) return;
  PrintProgress(fmt::format("model.init_from: {} start afresh: {} has none of their shapes{}\n",
                            fmt::join(fresh, ", "), config.model.init_from,
                            config.lora.asked()
                                ? "; they are trained in full, and stored with the adapter "
                                  "(lora.modules_to_save)"
                                : ""));
  const std::vector<std::string>& frozen = session.compiled().options.frozen;
  const bool asked = !config.train.freeze.empty();
  if (asked && std::ranges::any_of(
                   fresh, [&](const std::string& name) { return MatchesAnyGlob(frozen, name); })) {
    PrintWarning("train.freeze: leaves parameters as they start afresh");
  }
}

void StartingWeights::SayNewTokens() const {
  const models::Model::NewTokens& tokens = model.new_tokens();
  const int64_t count = tokens.end - tokens.first;
  if (count == 0 || !ranks.first()) return;
  PrintProgress(fmt::format(
      "model.vocab: {}: row{} of {} {} at the mean of {}'s\n", Counted(count, "new token"),
      count == 1 ? fmt::format(" {}", tokens.first)
                 : fmt::format("s {}-{}", tokens.first, tokens.end - 1),
      fmt::join(tokens.tables, " and "), count == 1 ? "begins" : "begin", config.model.init_from));
  std::vector<std::string> frozen;
  std::ranges::copy_if(tokens.tables, std::back_inserter(frozen), [&](const std::string& table) {
    return MatchesAnyGlob(session.compiled().options.frozen, table);
  });
  if (frozen.empty()) return;
  PrintWarning(fmt::format("model.vocab: the new rows of {} stay there: {}",
                           fmt::join(frozen, " and "),
                           session.compiled().options.lora.enabled()
                               ? "lora.modules_to_save names what is trained with adapters"
                               : "train.freeze"));
}

// Refuses new parameters that stay untrained: the run would not store them, and no other file
// contains them.
void StartingWeights::RequireTrained(const std::vector<std::string>& fresh) const {
  const CompileOptions& options = session.compiled().options;
  for (const std::string& name : fresh) {
    if (!options.lora.enabled() || !MatchesAnyGlob(options.frozen, name)) continue;
    throw config.Error("lora.modules_to_save",
                       fmt::format("lacks the module of {}, which starts afresh; name it", name));
  }
}

// Warns if the adapters in lora.init_from were trained over a base other than this run's. A new run
// may replace the base.
void StartingWeights::SayOtherBase() const {
  if (config.lora.init_from.empty() || !ranks.first()) return;
  const std::string other = adapters::BaseChecksumOf(config.lora.init_from);
  if (other.empty() || other == base) return;
  PrintWarning(fmt::format("lora.init_from: {} was trained over other weights than {} holds",
                           config.lora.init_from, config.model.init_from));
}

// A snapshot of adapters does not include their base model, whose weights are therefore set as at
// the beginning of a run.
void StartingWeights::Fill() const {
  const auto seed = static_cast<uint64_t>(config.model.seed);
  std::vector<std::string> fresh;
  const bool begins = resumed == nullptr || config.lora.asked();
  if (begins && config.model.init_from.empty()) {
    session.Initialize(model, seed);
  } else if (begins) {
    fresh = session.StartFrom(model, config.model.init_from, seed);
    RequireTrained(fresh);
  }
  if (resumed == nullptr) {
    SayFresh(fresh);
    SayNewTokens();
    StartAdapter(session, model, config, fresh);
    SayOtherBase();
  } else {
    const std::string anew = trainer::Text(ReadSnapshot(resumed->snapshot, model, ranks, session));
    if (!anew.empty() && ranks.first()) PrintProgress(anew + "\n");
  }
}

}  // namespace plimsoll::trainer
