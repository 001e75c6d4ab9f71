// Random compositions of techniques train, through the command and its files: losses, norms and
// weights are those of the same run without techniques, to the bit; the arena is used as planned
// and stays within its budget; and a run that is killed at some instant goes on to the same end.
//
// Seeds 0 to 49, or those that PLIMSOLL_SEEDS names:
//   bazel test //tests/compositions --test_env=PLIMSOLL_SEEDS=17,1000-1999
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <sstream>

#include "tests/compositions/composition.h"
#include "tests/compositions/run_files.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;

std::vector<uint64_t> Seeds() {
  const char* named = std::getenv("PLIMSOLL_SEEDS");
  std::vector<uint64_t> seeds;
  std::istringstream ranges(named != nullptr ? named : "0-49");
  for (std::string range; std::getline(ranges, range, ',');) {
    const size_t dash = range.find('-');
    const uint64_t first = std::stoull(range);
    const uint64_t last = dash == range.npos ? first : std::stoull(range.substr(dash + 1));
    for (uint64_t seed = first; seed <= last; ++seed) seeds.push_back(seed);
  }
  return seeds;
}

class Compositions : public testing::TestWithParam<uint64_t> {
 protected:
  using Sets = std::vector<std::string>;

  Compositions()
      : composition_(Draw(GetParam())),
        yaml_(folder_.Write("run.yaml", InFolder(composition_.yaml))) {
    for (const auto& [name, text] : composition_.files) folder_.Write(name, text);
  }

  // A run file that calls the folder of its data {folder}.
  std::string InFolder(std::string yaml) const {
    const std::string name = "{folder}";
    for (size_t at = 0; (at = yaml.find(name, at)) != yaml.npos;) {
      yaml.replace(at, name.size(), folder_.path());
    }
    return yaml;
  }

  // The program with a command for the run file.
  std::string Call(const std::string& command, const Sets& sets) const {
    const bool staged = std::ranges::find(sets, Pipeline()) != sets.end();
    const int ranks = composition_.ranks * (staged ? composition_.stages : 1);
    std::string call =
        ranks == 1 ? std::string() : fmt::format("tests/support/mpirun.sh {} ", ranks);
    call += fmt::format("{} {} '{}'", composition_.program, command, yaml_);
    if (!base_.empty()) call += fmt::format(" --set '{}'", base_);
    for (const std::string& set : sets) call += fmt::format(" --set '{}'", set);
    return call;
  }

  std::string Pipeline() const { return fmt::format("parallel.pipeline={}", composition_.stages); }

  Sets Techniques(const Sets& more) const {
    Sets sets = composition_.techniques;
    sets.insert(sets.end(), {"save.every=1", "run.overwrite=true"});
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
  }

  Sets Into(const std::string& run, Sets sets) const {
    sets.push_back("run.dir=" + (folder_ / run));
    return sets;
  }

  // Trains the model that adapters are for, and has the run start from it.
  void MakeBase() {
    const std::string run = folder_ / "base";
    ExpectExit(0, RunPlimsoll({"train", folder_.Write("base.yaml", InFolder(composition_.base)),
                               "--set", "run.dir=" + run}));
    base_ = "model.init_from=" + run + "/model";
  }

  // The run's directory.
  std::string Train(const std::string& run, const Sets& sets) const {
    const std::string call = Call("train", Into(run, sets));
    const Outcome outcome = RunShell(call);
    EXPECT_EQ(outcome.exit_code, 0) << call << "\n" << outcome.out << outcome.err;
    return folder_ / run;
  }

  void ExpectSame(const std::string& run, const std::string& reference) {
    EXPECT_EQ(NumbersOf(run), NumbersOf(reference));
    const std::string weights = WeightsOf(reference);
    EXPECT_FALSE(weights.empty());
    EXPECT_TRUE(WeightsOf(run) == weights) << "the weights differ";
  }

  // Sets memory.budget, between the smallest plan and `most`, the arena without techniques.
  void ChooseBudget(int64_t most) {
    if (composition_.budget < 0) return;
    // A budget below the parameters is refused before the smallest plan is known.
    static const std::regex kLeast(R"(the smallest plan needs [^(]*\((\d+) bytes)");
    int64_t least = 0;
    for (int64_t line = most / 8; least == 0 && line < 8 * most; line *= 2) {
      const Outcome plan = RunShell(Call("plan", Techniques({Budget(line)})));
      std::smatch match;
      if (std::regex_search(plan.err, match, kLeast)) least = std::stoll(match[1]);
      if (plan.exit_code == 0) least = line;
    }
    ASSERT_GT(least, 0);
    const double above = composition_.budget * static_cast<double>(most - least);
    budget_ = least + std::max<int64_t>(0, static_cast<int64_t>(above));
    composition_.techniques.push_back(Budget(budget_));
  }
  static std::string Budget(int64_t bytes) { return fmt::format("memory.budget={}B", bytes); }

  const TempFolder folder_;
  Composition composition_;
  const std::string yaml_;
  std::string base_;
  int64_t budget_ = 0;  // 0: there is none
};

TEST_P(Compositions, TrainAsWithoutTechniques) {
  if (!composition_.base.empty()) MakeBase();
  if (HasFailure()) return;
  const std::string reference = Train("reference", {});
  if (HasFailure()) return;
  ChooseBudget(JsonOf(reference, "summary.json")["arena_bytes"]);
  const std::string composed = Train("composed", Techniques({"debug.check_arena=true"}));
  if (HasFailure()) return;
  ExpectSame(composed, reference);
  const json summary = JsonOf(composed, "summary.json");
  EXPECT_EQ(summary["used_bytes"], summary["arena_bytes"]);
  if (budget_ > 0) {
    EXPECT_LE(summary["arena_bytes"].get<int64_t>(), budget_);
  }

  // Killed at some instant: of the start, between saves or within one, or behind the end. Ranks are
  // stopped instead (tests/parallel/kill_mpi_test.sh and pipeline_kill_mpi_test.sh kill them).
  if (composition_.ranks * composition_.stages == 1) {
    RunShell(fmt::format("{} & sleep 0.{:03}; kill -KILL $!; wait $!",
                         Call("train --resume auto", Into("resumed", Techniques({}))),
                         20 + GetParam() * 37 % 200));
  } else {
    Train("resumed", Techniques({"train.stop_after=3"}));
  }
  // Stages go on as such, or as one.
  Sets going_on = Techniques({});
  if (GetParam() % 2 == 0) std::erase(going_on, Pipeline());
  const std::string again = Call("train --resume auto", Into("resumed", going_on));
  const Outcome outcome = RunShell(again);
  ASSERT_EQ(outcome.exit_code, 0) << again << "\n" << outcome.out << outcome.err;
  ExpectSame(folder_ / "resumed", reference);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Compositions, testing::ValuesIn(Seeds()),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace plimsoll
