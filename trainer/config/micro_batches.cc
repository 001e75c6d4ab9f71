#include "trainer/config/micro_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/amounts.h"
#include "base/error.h"
#include "trainer/config/rank_counts.h"
#include "trainer/config/schema.h"

namespace plimsoll::config {
namespace {

int64_t MostOf(const char* key) { return static_cast<int64_t>(FindKey(key)->max); }

// The multiples of `step` next to a value: "6 or 8".
std::string NearestMultiples(int64_t value, int64_t step) {
  const int64_t below = value / step * step;
  return below == 0 ? fmt::format("{}", step) : fmt::format("{} or {}", below, below + step);
}

// UserError (`key`) unless a step's sequences divide evenly among the ranks.
void CheckSpread(const RunConfig& config, const char* key, int64_t sequences, int64_t ranks) {
  if (sequences % ranks == 0) return;
  throw config.Error(key,
                     fmt::format("{} {} not spread over {}; use {}", Counted(sequences, "sequence"),
                                 sequences == 1 ? "does" : "do", Counted(ranks, "data rank"),
                                 NearestMultiples(sequences, ranks)));
}

}  // namespace

void DeriveBatch(RunConfig& config, int64_t started) {
  if (config.parallel.open_mesh() && started > 1) return;
  TrainConfig& train = config.train;
  const int64_t ranks = DataRanks(config, started);
  const int64_t sequence = config.model.sequence();
  const char* key = train.global_batch ? "train.global_batch" : "train.global_batch_tokens";
  std::optional<int64_t> sequences = train.global_batch;
  if (train.global_batch_tokens && sequence > 0) {
    const int64_t tokens = *train.global_batch_tokens;
    if (tokens % sequence != 0) {
      throw config.Error("train.global_batch_tokens",
                         fmt::format("{} tokens are not a multiple of model.sequence {}{}; use {}",
                                     tokens, sequence, GivenAt(config, "model.sequence"),
                                     NearestMultiples(tokens, sequence)));
    }
    if (sequences && *sequences != tokens / sequence) {
      throw config.Error(
          "train.global_batch_tokens",
          fmt::format("{} / model.sequence {} = {}, but train.global_batch is {}{}; "
                      "keep one of the two",
                      Counted(tokens, "token"), sequence, Counted(tokens / sequence, "sequence"),
                      *sequences, GivenAt(config, "train.global_batch")));
    }
    sequences = tokens / sequence;
  }
  if (train.micro_batch == 0) {  // auto: the solver chooses the cut of the batch later
    if (config.IsSet("train.accumulate")) {
      throw config.Error("train.accumulate",
                         fmt::format("follows from train.micro_batch: auto{}; remove it",
                                     GivenAt(config, "train.micro_batch")));
    }
    if (!train.global_batch && !train.global_batch_tokens) {
      throw config.Error("train.micro_batch",
                         "auto cuts a batch whose size must be known; set train.global_batch, or "
                         "give a number of sequences");
    }
    if (!sequences) return;
    CheckSpread(config, key, *sequences, ranks);
    if (CutsOf(*sequences / ranks).empty()) {
      throw config.Error(
          key, fmt::format("{} sequences cannot be cut: neither train.micro_batch nor the "
                           "micro-steps may be more than {}; use another number",
                           *sequences, MostOf("train.accumulate")));
    }
    return;
  }
  if (!sequences) return;

  // The same file must work on any number of ranks, started or planned for, so a micro-step is at
  // most a rank's part of the batch.
  if (ranks > 1 && !config.IsSet("train.accumulate")) {
    CheckSpread(config, key, *sequences, ranks);
    const int64_t mine = *sequences / ranks;
    train.micro_batch = std::min(train.micro_batch, mine);
    while (mine % train.micro_batch != 0) --train.micro_batch;
  }
  const int64_t per_micro_step = train.micro_batch * ranks;
  if (*sequences % per_micro_step != 0) {
    throw config.Error(key,
                       fmt::format("{} {} not a multiple of train.micro_batch {} × {} = {}; "
                                   "use {}, or another train.micro_batch",
                                   Counted(*sequences, "sequence"), *sequences == 1 ? "is" : "are",
                                   train.micro_batch, Counted(ranks, "data rank"), per_micro_step,
                                   NearestMultiples(*sequences, per_micro_step)));
  }
  const int64_t accumulate = *sequences / per_micro_step;
  if (config.IsSet("train.accumulate") && train.accumulate != accumulate) {
    throw config.Error(
        key, fmt::format("{}, but train.micro_batch {} × train.accumulate {} × {} = "
                         "{}; remove train.accumulate{} or set it to {}",
                         Counted(*sequences, "sequence"), train.micro_batch, train.accumulate,
                         Counted(ranks, "data rank"), per_micro_step * train.accumulate,
                         GivenAt(config, "train.accumulate"), accumulate));
  }
  if (accumulate > MostOf("train.accumulate")) {
    throw config.Error(
        key,
        fmt::format("{} sequences in micro-steps of train.micro_batch {} × {} make "
                    "{} micro-steps an update, more than {}; raise train.micro_batch, or lower "
                    "this",
                    *sequences, train.micro_batch, Counted(ranks, "data rank"), accumulate,
                    MostOf("train.accumulate")));
  }
  train.accumulate = accumulate;
}

std::vector<int64_t> CutsOf(int64_t sequences) {
  std::vector<int64_t> cuts;
  const int64_t most = std::min(sequences, MostOf("train.accumulate"));
  for (int64_t accumulate = 1; accumulate <= most; ++accumulate) {
    if (sequences % accumulate != 0) continue;
    const int64_t micro_batch = sequences / accumulate;
    if (micro_batch <= MostOf("train.micro_batch")) cuts.push_back(micro_batch);
  }
  return cuts;
}

int64_t RankSequences(const RunConfig& config) {
  const int64_t sequences = config.train.global_batch
                                ? *config.train.global_batch
                                : *config.train.global_batch_tokens / config.model.sequence();
  return sequences / config.parallel.data_ranks();
}

void SetMicroBatch(RunConfig& run, const std::string& value) {
  TrainConfig& train = run.train;
  if (value != "auto") {
    train.accumulate = RankSequences(run) / std::stoll(value);
    train.micro_batch = std::stoll(value);
    return;
  }
  if (!train.global_batch && !train.global_batch_tokens) {
    train.global_batch = train.micro_batch * train.accumulate * run.parallel.data_ranks();
  }
  train.micro_batch = 0;
}

}  // namespace plimsoll::config
