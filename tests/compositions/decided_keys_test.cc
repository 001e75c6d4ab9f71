// Every key that memory.budget may decide, through the command and its files: what is chosen is
// said in JSON and gives the same plan in a run file; a refusal advises the key, and with it the
// run fits; numbers are those of a run without it, on one rank and under mpirun, where rank 0 tells
// the others what it chose.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "tests/compositions/run_files.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using Sets = std::vector<std::string>;

struct Decided {
  std::string key;
  std::string off;  // the value that saves nothing
  Sets around;      // with these settings, the key saves memory
  json on;          // what a small budget makes of auto; null: one of several values
};

void PrintTo(const Decided& decided, std::ostream* out) { *out << decided.key; }

const std::vector<Decided> kDecided = {
    {"train.micro_batch", "4", {"train.global_batch=8", "model.sequence=128"}, nullptr},
    {"train.blocks_first",
     "false",
     {"train.accumulate=2", "memory.weights=host", "optimizer.in_backward=true",
      "checkpointing.policy=block"},
     true},
    {"optimizer.place", "device", {}, "host"},
    {"optimizer.in_backward", "false", {}, true},
    {"checkpointing.policy", "none", {"model.sequence=128"}, nullptr},
    {"memory.weights", "device", {"optimizer.place=host"}, "host"},
    {"memory.gradients", "device", {"train.accumulate=2"}, "host"},
    {"memory.host_blocks", "1", {"optimizer.place=auto"}, nullptr},
};

// What `auto` makes of these is asked of the data, the type or the machine.
const std::set<std::string> kOthers = {
    "amp.loss_scale",
    "data.begin",
    "data.format",
    "device",
    "parallel.bucket_cap_mb",
    "parallel.data",
    "parallel.nccl_max_ctas",
    "train.monitor_mode",
};

// What ranks decide together: tests/parallel/auto_layout_mpi_test.sh.
const std::set<std::string> kOfRanks = {"parallel.sequence", "parallel.tensor", "parallel.zero"};

bool TakesAuto(const json& schema) {
  if (schema.is_string()) return schema == "auto";
  if (!schema.is_structured()) return false;
  return std::any_of(schema.begin(), schema.end(), TakesAuto);
}

void AddKeysWithAuto(const json& schema, const std::string& prefix, std::set<std::string>& keys) {
  for (const auto& [name, property] : schema["properties"].items()) {
    if (property.contains("properties")) {
      AddKeysWithAuto(property, prefix + name + ".", keys);
    } else if (property.contains("anyOf") && TakesAuto(property["anyOf"])) {
      keys.insert(prefix + name);
    }
  }
}

TEST(KeysWithAuto, AreDecidedByTheBudgetOrListedHere) {
  std::set<std::string> known = kOthers, keys;
  known.insert(kOfRanks.begin(), kOfRanks.end());
  for (const Decided& decided : kDecided) known.insert(decided.key);
  AddKeysWithAuto(json::parse(RunPlimsoll({"config", "--json-schema"}).out), "", keys);
  EXPECT_EQ(keys, known);
}

class DecidedKeys : public testing::TestWithParam<Decided> {
 protected:
  // A call of the program with the run file, in which the key has a value.
  std::string Call(const std::string& command, const std::string& value, Sets sets) const {
    std::string call = fmt::format("$PLIMSOLL {} '{}'", command, yaml_);
    sets.insert(sets.begin(), GetParam().around.begin(), GetParam().around.end());
    sets.push_back(GetParam().key + "=" + value);
    for (const std::string& set : sets) call += fmt::format(" --set '{}'", set);
    return call;
  }

  static Outcome Expect(int exit_code, const std::string& call) {
    const Outcome outcome = RunShell(call);
    EXPECT_EQ(outcome.exit_code, exit_code) << call << "\n" << outcome.out << outcome.err;
    return outcome;
  }

  static std::string Budget(int64_t bytes) { return fmt::format("memory.budget={}B", bytes); }
  // Gradients that all ranks sum leave in buckets, here of some blocks.
  static Sets Ranks(int ranks) {
    if (ranks == 1) return {};
    return {fmt::format("parallel.data={}", ranks), "parallel.bucket_cap_mb=1"};
  }

  // The bytes of the smallest plan.
  int64_t Least(const std::string& value, int ranks) const {
    static const std::regex kLeast(R"(plan needs [^(]*\((\d+) bytes)");
    for (int64_t line = 10 << 20;; line *= 2) {  // below the parameters, no plan is made
      Sets sets = Ranks(ranks);
      sets.push_back(Budget(line));
      const Outcome plan = RunShell(Call("plan", value, sets));
      std::smatch match;
      if (std::regex_search(plan.err, match, kLeast)) return std::stoll(match[1]);
      if (plan.exit_code != 3) {
        ADD_FAILURE() << plan.err;
        return line;
      }
    }
  }

  // memory.budget, half way between the smallest plans with the technique and without.
  std::string BudgetThatNeedsIt(int ranks) const {
    const int64_t with = Least("auto", ranks), without = Least(GetParam().off, ranks);
    EXPECT_LT(with, without);
    return Budget((with + without) / 2);
  }

  void ExpectChosen(const json& choices) const {
    const std::string& key = GetParam().key;
    if (key == "checkpointing.policy") return;  // what becomes of each tensor is no value of a key
    ASSERT_TRUE(choices.contains(key)) << choices;
    if (GetParam().on != nullptr) {
      EXPECT_EQ(choices[key], GetParam().on);
    }
  }

  // Trains on two ranks. Returns the run's directory.
  std::string Train(const std::string& run, const std::string& value, Sets sets) const {
    for (const std::string& set : Ranks(2)) sets.push_back(set);
    sets.push_back("run.dir=" + (folder_ / run));
    Expect(0, "tests/support/mpirun.sh 2 " + Call("train", value, sets));
    return folder_ / run;
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_.Write(
      "run.yaml",
      "model: {family: llama, layers: 4, width: 192, heads: 4, kv_heads: 2, ffn_width: 512,\n"
      "        vocab: 512, sequence: 16}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 3, micro_batch: 4, log_every: 1, eval_every: 0, threads: 1}\n"
      "optimizer: {clip_grad_norm: 0}\n"
      "device: cpu\n"
      "memory: {calibrate: false}\n"
      "debug: {host_apart: true}\n"
      "log: {csv: false, tensorboard: false, report: false}\n");
};

TEST_P(DecidedKeys, AreSaidInJsonAndGiveTheSamePlanInARunFile) {
  const std::string budget = BudgetThatNeedsIt(1);
  const json plan = json::parse(Expect(0, Call("plan --json", "auto", {budget})).out);
  ExpectChosen(plan["choices"]);
  for (const json& row : plan["candidates"]) {
    if (row["chosen"] == true) {
      EXPECT_EQ(row["choices"], plan["choices"]);
    }
  }
  if (GetParam().key == "checkpointing.policy") return;
  Sets made = {budget};
  std::string value;
  for (const auto& [key, choice] : plan["choices"].items()) {
    const std::string text = choice.is_string() ? choice.get<std::string>() : choice.dump();
    if (key == "train.accumulate") continue;  // follows from the batch
    if (key == GetParam().key) {
      value = text;
    } else {
      made.push_back(key + "=" + text);
    }
  }
  const json again = json::parse(Expect(0, Call("plan --json", value, made)).out);
  EXPECT_TRUE(again["choices"].empty());
  for (const char* figure : {"arena_bytes", "host_arena_bytes", "micro_batch", "accumulate"}) {
    EXPECT_EQ(again[figure], plan[figure]) << figure;
  }
}

TEST_P(DecidedKeys, AreAdvisedWhereTheyHelp) {
  const std::string budget = BudgetThatNeedsIt(1);
  const std::string refusal = Expect(3, Call("plan", GetParam().off, {budget})).err;
  const std::regex advised("it would fit with .*" + GetParam().key + ": (\\w+)");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(refusal, match, advised)) << refusal;
  Expect(0, Call("plan", match[1], {budget}));
}

TEST_P(DecidedKeys, ChangeNoNumberUnderMpirun) {
  const std::string budget = BudgetThatNeedsIt(2);
  const std::string decided = Train("decided", "auto", {budget, "debug.check_arena=true"});
  if (HasFailure()) return;
  const json plan = JsonOf(decided, "plan.json"), summary = JsonOf(decided, "summary.json");
  ExpectChosen(plan["choices"]);
  EXPECT_EQ(summary["used_bytes"], plan["arena_bytes"]);
  EXPECT_LE(plan["arena_bytes"].get<int64_t>(), summary["arena_budget_bytes"].get<int64_t>());
  // Nothing is left to a budget. Sums over another cut of the batch round differently.
  const Sets plain = {"checkpointing.policy=none", "optimizer.place=device"};
  const bool cut = GetParam().key == "train.micro_batch";
  std::string off = cut ? plan["choices"]["train.micro_batch"].dump() : GetParam().off;
  if (GetParam().key == "memory.host_blocks") off = "auto";  // of nothing
  const std::string reference = Train("reference", off, plain);
  EXPECT_EQ(NumbersOf(decided), NumbersOf(reference));
  EXPECT_FALSE(WeightsOf(reference).empty());
  EXPECT_TRUE(WeightsOf(decided) == WeightsOf(reference)) << "the weights differ";
}

INSTANTIATE_TEST_SUITE_P(All, DecidedKeys, testing::ValuesIn(kDecided), [](const auto& info) {
  std::string name = info.param.key;
  std::ranges::replace(name, '.', '_');
  return name;
});

}  // namespace
}  // namespace plimsoll
