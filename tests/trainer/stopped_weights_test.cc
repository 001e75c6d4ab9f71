// The weights of a stopped run: used to generate, evaluated, exported from its snapshots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/snapshot_run.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

// The snapshots of a stopped run are as useful as the results of one that ended.
TEST_F(SnapshotCommand, AStoppedRunGeneratesAndIsEvaluated) {
  const Sets sets = {"save.keep=0", "save.model=true", "amp.dtype=bf16"};
  ExpectExit(0, Train(sets));
  const auto eval = [&](Sets more, const std::string& said) {
    more.insert(more.begin(), {"eval", run_, "--json"});
    const Outcome outcome = ExpectExit(0, RunPlimsoll(more));
    EXPECT_EQ(outcome.err, said);
    return outcome.exit_code == 0 ? json::parse(outcome.out).at("loss").get<double>() : 0;
  };
  const auto taken = [&](int step) {
    char name[32];
    std::snprintf(name, sizeof(name), "step-%09d", step);
    return "weights after " + std::to_string(step) + " steps, of the snapshot " + run_ +
           "/snapshots/" + name + "\n";
  };
  const Outcome whole = RunPlimsoll({"generate", run_, "--tokens", "20"});
  const double at_end = eval({}, "");
  const double at_5 = eval({"--step", "5"}, taken(5));
  EXPECT_NE(at_5, at_end);
  EXPECT_EQ(eval({"--step", "12"}, taken(12)), at_end);

  fs::remove_all(run_ + "/model");
  EXPECT_EQ(eval({}, taken(12)), at_end);
  const Outcome generated = ExpectExit(0, RunPlimsoll({"generate", run_, "--tokens", "20"}));
  EXPECT_EQ(generated.out, whole.out);
  EXPECT_THAT(generated.err, testing::StartsWith(taken(12)));
  // A single snapshot, at any place.
  fs::rename(Snapshot(5), folder_ / "alone");
  const Outcome alone =
      ExpectExit(0, RunPlimsoll({"eval", folder_ / "alone", "--data", folder_ / "text", "--json"}));

  const auto refused = [&](const Sets& arguments, const std::string& part) {
    ExpectRefusal(RunPlimsoll(arguments), {part});
  };
  refused({"generate", run_, "--step", "5"}, "--step: " + run_ + " has no snapshot of step 5");
  refused({"eval", folder_ / "alone", "--best"}, "name the run's directory to choose");
  refused({"eval", folder_ / "alone"}, "name text or token files with --data");
  fs::remove_all(run_ + "/snapshots");
  refused({"eval", run_}, "neither snapshots nor a model/");
  refused({"export", run_, "--best", "--to", folder_ / "to"}, "has no snapshots");
}

// For a run whose held-out loss rises again, however it ends.
TEST_F(SnapshotCommand, TheModelIsThatOfTheBestEvaluation) {
  const auto train = [&](const std::string& run, const Sets& more) {
    run_ = folder_ / run;
    Sets sets = {"save.every=0",       "save.model=true",        "optimizer.lr=0.3",
                 "train.eval_every=1", "schedule.name=constant", "schedule.warmup=5",
                 "model.dropout=0"};
    sets.insert(sets.end(), more.begin(), more.end());
    const Outcome outcome = ExpectExit(0, Train(sets));
    return outcome.out;
  };
  const auto held_out = [&] {
    std::vector<double> losses;
    for (const std::string& row : Numbers()) {
      const json parsed = json::parse(row);
      if (parsed.contains("eval_loss")) losses.push_back(parsed.at("eval_loss"));
    }
    return losses;
  };
  const auto loss = [&](const Sets& more) {
    Sets arguments = {"eval", run_, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json::parse(RunPlimsoll(arguments).out).at("loss").get<double>();
  };
  train("last", {});
  EXPECT_EQ(loss({}), held_out().back());
  ASSERT_GT(held_out().back(), std::ranges::min(held_out())) << "it doesn't rise";

  for (const char* stop : {"train.early_stop=0", "train.early_stop=2"}) {
    const std::string out = train(stop, {"save.best=true", stop});
    const std::vector<double> losses = held_out();
    const double best = std::ranges::min(losses);
    EXPECT_THAT(out, HasSubstr("of the best held-out loss"));
    EXPECT_EQ(loss({}), best) << stop;
    EXPECT_EQ(loss({"--best"}), best) << stop;
    const auto steps = std::ranges::min_element(losses) - losses.begin();
    EXPECT_EQ(losses.size(), stop[17] == '0' ? 13u : static_cast<size_t>(steps) + 3);
  }
}

}  // namespace
}  // namespace plimsoll
