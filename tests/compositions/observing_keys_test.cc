// Keys that only observe a run change no number of it, wherever random numbers are drawn: by
// dropout and where weights, moments or sums of gradients are rounded stochastically. Draws follow
// from the number of a node, so the nodes of such a key must not be counted
// (graph::Builder::NextKey).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/compositions/run_files.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using Sets = std::vector<std::string>;

// A run in which random numbers are drawn.
struct Drawing {
  std::string name;
  Sets sets;
  int ranks = 1;
};

void PrintTo(const Drawing& drawing, std::ostream* out) { *out << drawing.name; }

// Weights of bf16 alone: each update draws.
const Sets kWeights = {"amp.dtype=bf16", "amp.master_weights=false"};
const Sets kCodes = {"amp.fp8.recipe=current", "amp.fp8.skip_ends=0"};
const Sets kDelayed = {"amp.fp8.recipe=delayed", "amp.fp8.skip_ends=0"};

Sets operator+(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::vector<Drawing> kDrawing = {
    {"weights", kWeights},
    {"moments", {"amp.dtype=bf16", "optimizer.state_dtype=bf16"}},
    {"moments_in_8_bits", kWeights + Sets{"optimizer.state_dtype=int8"}},
    {"momentum", kWeights + Sets{"optimizer.name=muon"}},
    {"sgd", kWeights + Sets{"optimizer.name=sgd"}},
    {"sums", kWeights + Sets{"amp.grad_dtype=bf16", "train.accumulate=3"}},
    {"codes", kWeights + kCodes},
    {"codes_of_pre_activations", kWeights + kCodes + Sets{"amp.fp8.pre_activations=true"}},
    {"delayed_codes", kWeights + kDelayed + Sets{"train.accumulate=2"}},
    {"divided_sums",
     kWeights + kDelayed + Sets{"parallel.zero=2", "amp.grad_dtype=bf16", "train.accumulate=2"}, 2},
    {"tensor_ranks", kWeights + kDelayed + Sets{"parallel.tensor=2"}, 2},
};

// Keys that only observe. Those that add nodes to a step's programs are on their own, too.
const std::vector<Sets> kObserving = {
    {"amp.fp8.counts=true"},
    {"divergence.action=skip"},
    {"optimizer.ema=0.9", "optimizer.ema_warmup=true"},
    {"amp.fp8.counts=true", "divergence.action=skip", "optimizer.ema=0.9", "train.eval_every=1",
     "save.every=1", "save.async=true"},
    {"divergence.action=rollback", "save.every=2", "save.keep=0", "train.eval_every=1",
     "train.eval_sequences=4", "train.monitor=loss", "train.early_stop=9"},
    {"train.log_every=1", "log.csv=true", "log.tensorboard=true", "log.report=true",
     "memory.summary=full", "memory.allocator=caching"},
    {"debug.dump_programs=true", "debug.verify_drafts=true", "debug.poison=true",
     "debug.find_nan=true", "debug.node_by_node=true", "debug.check_arena=true"},
};

class ObservingKeys : public testing::TestWithParam<Drawing> {
 protected:
  // Trains, and returns the run's directory.
  std::string Train(const std::string& run, const Sets& sets) const {
    const int ranks = GetParam().ranks;
    std::string call =
        ranks == 1 ? std::string() : fmt::format("tests/support/mpirun.sh {} ", ranks);
    call += fmt::format("$PLIMSOLL train '{}' --set 'run.dir={}'", yaml_, folder_ / run);
    for (const std::string& set : GetParam().sets + sets) call += fmt::format(" --set '{}'", set);
    const Outcome outcome = RunShell(call);
    EXPECT_EQ(outcome.exit_code, 0) << call << "\n" << outcome.out << outcome.err;
    return folder_ / run;
  }

  bool HasCodes() const {
    return std::ranges::any_of(
        GetParam().sets, [](const std::string& set) { return set.starts_with("amp.fp8.recipe"); });
  }

  // The weights, and the numbers of steps. An evaluation has numbers of its own, in the same rows.
  static std::vector<std::string> StepsOf(const std::string& run) {
    std::vector<std::string> steps = {WeightsOf(run)};
    for (const nlohmann::json& row : JsonLines(ReadFile(run + "/metrics.jsonl"))) {
      if (!row.contains("grad_norm")) continue;
      steps.push_back(fmt::format("step {}: loss {}, norm {}", row.at("step").dump(),
                                  row.at("loss").dump(), row.at("grad_norm").dump()));
    }
    return steps;
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_.Write(
      "run.yaml",
      "model: {family: gpt2, layers: 2, heads: 2, width: 64, vocab: 256, sequence: 16,\n"
      "        dropout: 0.2}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 4, micro_batch: 2, eval_every: 0, log_every: 0, threads: 1}\n"
      "optimizer: {lr: 1e-2}\n"
      "schedule: {warmup: 0}\n"
      "device: cpu\n"
      "memory: {calibrate: false, summary: false}\n"
      "log: {csv: false, tensorboard: false, report: false}\n");
};

TEST_P(ObservingKeys, ChangeNoNumber) {
  const std::vector<std::string> expected = StepsOf(Train("alone", {}));
  ASSERT_EQ(expected.size(), 5u);
  EXPECT_FALSE(expected[0].empty());
  for (size_t i = 0; i < kObserving.size(); ++i) {
    Sets sets = kObserving[i];
    if (!HasCodes()) std::erase(sets, "amp.fp8.counts=true");
    if (sets.empty()) continue;
    SCOPED_TRACE(fmt::format("{}", fmt::join(sets, ", ")));
    const std::vector<std::string> steps = StepsOf(Train(std::to_string(i), sets));
    ASSERT_EQ(steps.size(), expected.size());
    for (size_t step = 1; step < steps.size(); ++step) EXPECT_EQ(steps[step], expected[step]);
    EXPECT_TRUE(steps[0] == expected[0]) << "the weights differ";
  }
}

INSTANTIATE_TEST_SUITE_P(All, ObservingKeys, testing::ValuesIn(kDrawing),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plimsoll
