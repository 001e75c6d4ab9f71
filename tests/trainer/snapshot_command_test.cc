// `plimsoll train` with snapshots: what goes on from one is what was never stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Sets = std::vector<std::string>;

class SnapshotCommand : public testing::Test {
 protected:
  SnapshotCommand() {
    std::string words;
    for (int i = 0; i < 400; ++i) {
      words += "One, two, three, four, five: number " + std::to_string(i) + " is alive.\n%\n";
    }
    folder_.Write("text", words);
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 2, width: 64, heads: 2, sequence: 32, dropout: 0.1}\n"
              "data: {train: " +
                  folder_.path() +
                  "/text, format: text, tokenizer: byte,\n"
                  "       eval_fraction: 0.2, document_separator: \"%\"}\n"
                  "train: {steps: 12, micro_batch: 4, eval_every: 4, log_every: 5, threads: 2}\n"
                  "optimizer: {lr: 1e-2}\n"
                  "schedule: {name: cosine, warmup: 2}\n"
                  "memory: {summary: false, calibrate: false}\n"
                  "save: {every: 5, model: false}\n");
  }

  std::vector<std::string> Arguments(const Sets& sets, const Sets& more = {}) const {
    std::vector<std::string> arguments = {"train", yaml_, "--set", "run.dir=" + run_};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Outcome Train(const Sets& sets = {}) const { return RunPlimsoll(Arguments(sets)); }
  Outcome Resume(const Sets& sets = {}, const std::string& from = "auto") const {
    return RunPlimsoll(Arguments(sets, {"--resume", from}));
  }

  // Rows of metrics.jsonl, without what differs from run to run.
  std::vector<std::string> Numbers() const {
    std::vector<std::string> rows;
    std::istringstream lines(ReadFile(run_ + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const json row = json::parse(line);
      json numbers;
      for (const char* key : {"step", "loss", "eval_loss", "lr", "grad_norm", "loss_scale"}) {
        if (row.contains(key)) numbers[key] = row.at(key);
      }
      rows.push_back(numbers.dump());
    }
    return rows;
  }
  // Those of the same run that nothing stops.
  std::vector<std::string> NumbersOfWhole(Sets sets) {
    const std::string run = std::exchange(run_, folder_ / "whole");
    sets.push_back("run.overwrite=true");
    const Outcome outcome = Train(sets);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::vector<std::string> numbers = Numbers();
    run_ = run;
    return numbers;
  }

  std::string Snapshot(int step) const {
    return run_ + "/snapshots/step-00000000" + std::to_string(step);
  }
  std::vector<std::string> Snapshots() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(run_ + "/snapshots", error)) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  std::string run_ = folder_ / "run";
  std::mt19937 random_{11};
};

// Stopped at some step, and then at another one, the run has the bits of one that wasn't.
class Resumed : public SnapshotCommand, public testing::WithParamInterface<Sets> {};

TEST_P(Resumed, HasTheBitsOfARunThatWasNeverStopped) {
  const std::vector<std::string> whole = NumbersOfWhole(GetParam());
  Sets sets = GetParam();
  const int first = 1 + static_cast<int>(random_() % 5);
  const int second = first + 1 + static_cast<int>(random_() % 5);
  sets.push_back("train.stop_after=" + std::to_string(first));
  ASSERT_EQ(Train(sets).exit_code, 0);
  sets.back() = "train.stop_after=" + std::to_string(second);
  const Outcome middle = Resume(sets);
  ASSERT_EQ(middle.exit_code, 0) << middle.err;
  EXPECT_THAT(middle.out, HasSubstr("goes on after " + std::to_string(first) + " steps"));
  sets.pop_back();
  const Outcome last = Resume(sets);
  ASSERT_EQ(last.exit_code, 0) << last.err;
  // An evaluation behind the last step before a stop is one more than the whole run has.
  std::vector<std::string> numbers = Numbers();
  std::erase_if(numbers, [&](const std::string& row) {
    const json parsed = json::parse(row);
    return parsed.contains("eval_loss") && parsed.at("step").get<int>() % 4 != 0;
  });
  EXPECT_EQ(numbers, whole);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Resumed,
    testing::Values(
        Sets{}, Sets{"amp.dtype=bf16"}, Sets{"amp.dtype=bf16", "amp.master_weights=false"},
        Sets{"amp.dtype=fp16", "amp.init_scale=1e9", "amp.growth_interval=2"},
        Sets{"optimizer.state_dtype=int8"}, Sets{"optimizer.state_dtype=bf16", "amp.dtype=bf16"},
        Sets{"optimizer.name=sgd", "optimizer.lr=0.1"},
        Sets{"optimizer.place=host", "amp.dtype=bf16"},
        Sets{"train.accumulate=3", "train.micro_batch=2"},
        Sets{"checkpointing.policy=none", "checkpointing.offload=[activations]"},
        Sets{"checkpointing.policy=auto", "memory.budget=3MiB"}, Sets{"memory.allocator=caching"},
        Sets{"data.order=consecutive"}, Sets{"debug.poison=true"}, Sets{"save.async=true"},
        Sets{"save.async=true", "save.every=1", "amp.dtype=bf16", "optimizer.place=host"},
        Sets{"save.async=true", "amp.dtype=fp16", "amp.init_scale=1e9", "debug.poison=true"},
        Sets{"save.async=true", "optimizer.state_dtype=int8", "train.accumulate=3"},
        Sets{"save.async=true", "memory.allocator=caching"}),
    [](const auto& info) {
      std::string name = std::to_string(info.index);
      for (const std::string& set : info.param) name += "_" + set;
      for (char& c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      }
      return name;
    });

TEST_F(SnapshotCommand, AnotherWayOfDoingTheWorkGoesOn) {
  const std::vector<std::string> whole = NumbersOfWhole({"model.dropout=0"});
  ASSERT_EQ(Train({"model.dropout=0", "train.stop_after=6"}).exit_code, 0);
  const Outcome outcome = Resume({"model.dropout=0", "train.micro_batch=2", "train.accumulate=2",
                                  "checkpointing.policy=block", "optimizer.place=host",
                                  "train.threads=1", "run.name=a", "run.tags=[b]", "run.notes=c"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<std::string> numbers = Numbers();
  int compared = 0;
  for (const std::string& row : numbers) {
    const json now = json::parse(row);
    if (!now.contains("loss")) continue;
    for (const std::string& other : whole) {
      const json then = json::parse(other);
      if (!then.contains("loss") || then.at("step") != now.at("step")) continue;
      EXPECT_NEAR(now.at("loss").get<double>(), then.at("loss").get<double>(), 1e-5) << row;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 12);
}

TEST_F(SnapshotCommand, KeepsWhatItIsTold) {
  ASSERT_EQ(Train({"save.every=2", "save.keep=1", "save.keep_every=6", "train.steps=11"}).exit_code,
            0);
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000006", "step-000000011"));
  // Better and better, until another rate tears everything down.
  const Sets best = {"save.every=2", "save.keep=1", "save.best=true"};
  Sets sets = {"run.overwrite=true", "train.stop_after=8"};
  sets.insert(sets.end(), best.begin(), best.end());
  ASSERT_EQ(Train(sets).exit_code, 0);
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000008"));
  sets = {"optimizer.lr=1", "schedule.name=constant"};
  sets.insert(sets.end(), best.begin(), best.end());
  const Outcome worse = Resume(sets);
  ASSERT_EQ(worse.exit_code, 0) << worse.err;
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000008", "step-000000012"));
}

TEST_F(SnapshotCommand, ABranchFromASnapshotLeavesItsRunAlone) {
  ASSERT_EQ(Train({"save.keep=0"}).exit_code, 0);
  const std::vector<std::string> whole = Numbers(), snapshots = Snapshots();
  const std::string from = Snapshot(5);
  run_ = folder_ / "branch";
  const Outcome outcome = Resume({"optimizer.lr=1e-3"}, from);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(Numbers().front(), HasSubstr("\"step\":5"));
  EXPECT_THAT(Numbers().front(), testing::Ne(whole[7]));
  run_ = folder_ / "run";
  EXPECT_EQ(Numbers(), whole);
  EXPECT_EQ(Snapshots(), snapshots);
  // From an earlier snapshot of the same run: what came behind it makes way.
  ASSERT_EQ(Resume({}, from + "/").exit_code, 0);
  EXPECT_EQ(Numbers(), whole);
}

TEST_F(SnapshotCommand, WhatContradictsTheSnapshotIsListed) {
  ASSERT_EQ(Train({"train.stop_after=5"}).exit_code, 0);
  const std::vector<std::string> numbers = Numbers();
  const auto refused = [&](const Sets& sets, const std::vector<std::string>& parts) {
    const Outcome outcome = Resume(sets);
    EXPECT_EQ(outcome.exit_code, 2);
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_EQ(Numbers(), numbers);
  };
  refused({"model.layers=3", "optimizer.name=sgd"},
          {"cannot continue", Snapshot(5), "model.layers: 3, in the snapshot 2",
           "optimizer.name: sgd, in the snapshot adamw"});
  refused({"model.width=32"}, {"model.width: 32, in the snapshot 64"});
  refused({"model.vocab=300"}, {"model.vocab: 300, in the snapshot 256"});
  refused({"amp.dtype=bf16"}, {"amp.dtype: bf16, in the snapshot fp32"});
  refused({"optimizer.state_dtype=int8"}, {"optimizer.state_dtype: int8"});

  // What changes the course must be asked for.
  std::string text = ReadFile(yaml_);
  const std::string rate = "lr: 1e-2", steps = "micro_batch: 4";
  text.replace(text.find(rate), rate.size(), "lr: 2e-2");
  text.replace(text.find(steps), steps.size(), "micro_batch: 2");
  WriteFile(yaml_, text);
  refused({}, {"would not continue", "optimizer.lr: 0.02, in the snapshot 0.01",
               "2 sequences a step, in the snapshot 4", "--set"});
  const Outcome outcome = Resume({"optimizer.lr=2e-2", "train.micro_batch=2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

// A batch of another size reads on where the last one ended.
TEST_F(SnapshotCommand, AnotherBatchGoesOnInTheData) {
  ASSERT_EQ(Train({"train.stop_after=6"}).exit_code, 0);
  ASSERT_EQ(Resume({"train.micro_batch=2", "train.stop_after=8"}).exit_code, 0);
  const json manifest = json::parse(ReadFile(Snapshot(8) + "/manifest.json"));
  EXPECT_EQ(manifest.at("run").at("sequences"), 6 * 4 + 2 * 2);
}

TEST_F(SnapshotCommand, WithoutASnapshotAutoStartsFromTheBeginning) {
  EXPECT_EQ(Resume({"train.stop_after=2", "save.every=0"}).exit_code, 0);
  // But it replaces no run that has none.
  const Outcome outcome = Resume();
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("holds a run already"));
  const Outcome nowhere = Resume({}, folder_ / "nowhere");
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("neither a snapshot"));
}

TEST_F(SnapshotCommand, ADamagedSnapshotIsNamedAndAnOlderOneTaken) {
  const std::vector<std::string> whole = NumbersOfWhole({"save.keep=0"});
  ASSERT_EQ(Train({"save.keep=0"}).exit_code, 0);
  const std::string shard = Snapshot(5) + "/rank-00000.safetensors";
  for (const std::string& name : {std::string("12"), std::string("10")}) {
    const std::string file = run_ + "/snapshots/step-0000000" + name + "/rank-00000.safetensors";
    std::string content = ReadFile(file);
    content[content.size() - 5] ^= 4;
    WriteFile(file, content);
  }
  const Outcome outcome = Resume({"save.keep=0"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("step-000000012/rank-00000.safetensors: tensor \""));
  EXPECT_THAT(outcome.err, HasSubstr("step-000000010/rank-00000.safetensors: tensor \""));
  EXPECT_THAT(outcome.out, HasSubstr("goes on after 5 steps"));
  EXPECT_EQ(Numbers(), whole);
  for (const char* name : {"05", "10", "12"}) {
    fs::remove(run_ + "/snapshots/step-0000000" + name + "/manifest.json");
  }
  const Outcome none = Resume();
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("none of the snapshots is whole"));
}

TEST_F(SnapshotCommand, SamplesBehindTheSnapshotGo) {
  const Sets sets = {"train.sample_every=2", "sample.tokens=5", "save.keep=0", "train.steps=10"};
  const auto samples = [&] { return ReadFile(run_ + "/samples.jsonl"); };
  ASSERT_EQ(Train(sets).exit_code, 0);
  const std::string whole = samples();
  EXPECT_EQ(std::ranges::count(whole, '\n'), 5);
  ASSERT_EQ(RunPlimsoll(Arguments(sets, {"--resume", Snapshot(5)})).exit_code, 0);
  EXPECT_EQ(samples(), whole);
  // Those of two and four steps were there; none is left where none is asked for.
  ASSERT_EQ(RunPlimsoll(Arguments({"save.keep=0", "train.steps=10"}, {"--resume", Snapshot(5)}))
                .exit_code,
            0);
  EXPECT_EQ(samples(), whole.substr(0, samples().size()));
  EXPECT_EQ(std::ranges::count(samples(), '\n'), 2);
}

TEST_F(SnapshotCommand, MembersOfMetricsThatItDoesNotKnowStay) {
  ASSERT_EQ(Train({"train.stop_after=5"}).exit_code, 0);
  const std::string metrics = run_ + "/metrics.jsonl", rows = ReadFile(metrics);
  std::string first = rows.substr(0, rows.find('\n'));
  const std::string rest = rows.substr(first.size());
  first.replace(first.size() - 1, 1, ",\"mood\":0.5,\"odd\":{\"a\":[1,2,3]}}");
  WriteFile(metrics, "no row\n" + first + rest);
  const Outcome refused = Resume();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr(metrics + ":1: is no row of a run"));
  EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;

  WriteFile(metrics, first + rest);
  const Outcome outcome = Resume();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(ReadFile(metrics), testing::StartsWith(first + "\n"));
  EXPECT_EQ(Numbers().size(), 12u + 5u);  // evaluations after 0, 4, 5, 8 and 12 steps
  const std::string table = ReadFile(run_ + "/metrics.csv");
  EXPECT_THAT(table.substr(0, table.find('\n')), testing::EndsWith(",mood,odd"));
  EXPECT_THAT(table, HasSubstr(",0.5,\"{\"\"a\"\":[1,2,3]}\"\n"));
}

TEST_F(SnapshotCommand, InspectShowsAndVerifies) {
  ASSERT_EQ(Train().exit_code, 0);
  const std::string newest = run_ + "/snapshots/step-000000012";
  const Outcome whole = RunPlimsoll({"inspect", newest});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  for (const char* part :
       {"after 12 steps and 48 sequences", "evaluated after 12 steps", "block.1.attn.qkv.weight.m ",
        "F32", "[192, 64]", "update_count", "whole: every checksum matches"}) {
    EXPECT_THAT(whole.out, HasSubstr(part));
  }
  const std::string shard = newest + "/rank-00000.safetensors";
  std::string content = ReadFile(shard);
  content[content.size() - 9] ^= 1;
  WriteFile(shard, content);
  for (const std::string& path : {newest, run_}) {
    const Outcome damaged = RunPlimsoll({"inspect", path});
    EXPECT_EQ(damaged.exit_code, 2);
    EXPECT_THAT(damaged.err, HasSubstr(shard + ": tensor \""));
    EXPECT_THAT(damaged.err, HasSubstr("checksum does not match"));
    EXPECT_EQ(damaged.out.find("every checksum"), std::string::npos);
  }
  EXPECT_THAT(RunPlimsoll({"inspect", run_}).out, HasSubstr("step-000000010: "));
  EXPECT_EQ(RunPlimsoll({"inspect", folder_.path()}).exit_code, 2);
}

// What a stopped run has left is as good as what an ended one has.
TEST_F(SnapshotCommand, AStoppedRunGeneratesAndIsEvaluated) {
  const Sets sets = {"save.keep=0", "save.model=true", "amp.dtype=bf16"};
  ASSERT_EQ(Train(sets).exit_code, 0);
  const auto eval = [&](Sets more, const std::string& said) {
    more.insert(more.begin(), {"eval", run_, "--json"});
    const Outcome outcome = RunPlimsoll(more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
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
  const Outcome generated = RunPlimsoll({"generate", run_, "--tokens", "20"});
  EXPECT_EQ(generated.exit_code, 0) << generated.err;
  EXPECT_EQ(generated.out, whole.out);
  EXPECT_THAT(generated.err, testing::StartsWith(taken(12)));
  // One snapshot, wherever it lies.
  fs::rename(Snapshot(5), folder_ / "alone");
  const Outcome alone =
      RunPlimsoll({"eval", folder_ / "alone", "--data", folder_ / "text", "--json"});
  EXPECT_EQ(alone.exit_code, 0) << alone.err;

  const auto refused = [&](const Sets& arguments, const std::string& part) {
    const Outcome outcome = RunPlimsoll(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  };
  refused({"generate", run_, "--step", "5"}, "--step: " + run_ + " has no snapshot of step 5");
  refused({"eval", folder_ / "alone", "--best"}, "name the run's directory to choose");
  refused({"eval", folder_ / "alone"}, "name text or token files with --data");
  fs::remove_all(run_ + "/snapshots");
  refused({"eval", run_}, "neither snapshots nor a model/");
  refused({"export", run_, "--best", "--to", folder_ / "to"}, "has no snapshots");
}

// Of a run whose held-out loss rises again, however it ends.
TEST_F(SnapshotCommand, TheModelIsThatOfTheBestEvaluation) {
  const auto train = [&](const std::string& run, const Sets& more) {
    run_ = folder_ / run;
    Sets sets = {"save.every=0",       "save.model=true",        "optimizer.lr=0.3",
                 "train.eval_every=1", "schedule.name=constant", "schedule.warmup=5",
                 "model.dropout=0"};
    sets.insert(sets.end(), more.begin(), more.end());
    const Outcome outcome = Train(sets);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
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

// A run that takes its time, to be stopped in the middle.
class Stopped : public SnapshotCommand {
 protected:
  static constexpr const char* kLong = "train.steps=100000";

  pid_t Start(const Sets& sets, const Sets& more = {}) const {
    Sets all = {kLong, "train.eval_every=0"};
    all.insert(all.end(), sets.begin(), sets.end());
    return StartPlimsoll(Arguments(all, more), folder_.path());
  }
  int Rows() const {
    std::error_code error;
    if (!fs::exists(run_ + "/metrics.jsonl", error)) return 0;
    const std::string text = ReadFile(run_ + "/metrics.jsonl");
    return static_cast<int>(std::ranges::count(text, '\n'));
  }
  void AwaitRows(int rows) const {
    for (int i = 0; i < 3000 && Rows() < rows; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_GE(Rows(), rows) << folder_.Read("err");
  }
  static int Wait(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }
};

TEST_F(Stopped, ASignalSavesAndEndsWithItsCode) {
  const std::vector<std::string> whole =
      NumbersOfWhole({kLong, "train.eval_every=0", "train.stop_after=400", "save.on_exit=false"});
  struct Case {
    int signal;
    const char* set;
  };
  int rows = 0;
  for (const Case& c : {Case{SIGTERM, "save.signal=none"}, Case{SIGINT, "save.signal=HUP"},
                        Case{SIGUSR1, "save.signal=USR1"}}) {
    const pid_t child = Start({"save.every=0", c.set}, {"--resume", "auto"});
    AwaitRows(rows + 20);
    kill(child, c.signal);
    const int status = Wait(child);
    ASSERT_TRUE(WIFEXITED(status)) << c.set;
    EXPECT_EQ(WEXITSTATUS(status), 4) << folder_.Read("err");
    EXPECT_THAT(folder_.Read("out"), HasSubstr("--resume auto goes on from here"));
    rows = Rows();
  }
  ASSERT_LT(rows, 400) << "the machine is faster than this test";
  ASSERT_EQ(
      Resume({kLong, "train.eval_every=0", "train.stop_after=400", "save.on_exit=false"}).exit_code,
      0);
  EXPECT_EQ(Numbers(), whole);
}

TEST_F(Stopped, ASecondSignalEndsTheRunAtOnce) {
  // A step that takes long enough for both to come within it.
  const pid_t child = Start({"model.width=256", "train.micro_batch=1", "train.accumulate=500"});
  for (int i = 0; i < 3000 && !fs::exists(run_ + "/metrics.jsonl"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(child, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "the first signal ended it";
  kill(child, SIGINT);
  const int status = Wait(child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

TEST_F(Stopped, WithoutSaveOnExitASignalEndsTheRun) {
  const pid_t child = Start({"save.on_exit=false"});
  AwaitRows(5);
  kill(child, SIGTERM);
  const int status = Wait(child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

// Killed again and again at any time: each time it goes on, and in the end the numbers are those of
// a run that nobody killed. A .partial folder of a newer step than the newest complete one proves a
// kill between a save's first write and its rename.
class Killed : public Stopped, public testing::WithParamInterface<const char*> {};

TEST_P(Killed, AtAnyTimeItGoesOn) {
  const Sets sets = {"save.every=1", "save.keep=3", "model.width=128", "save.on_exit=false",
                     GetParam()};
  int inside = 0, newest = 0;
  constexpr int kKills = 30;
  const auto newest_of = [&](const std::string& suffix) {
    int found = 0;
    for (const std::string& name : Snapshots()) {
      if (name.size() == 14 + suffix.size() && name.ends_with(suffix)) {
        found = std::max(found, std::stoi(name.substr(5)));
      }
    }
    return found;
  };
  for (int number = 0; number < kKills; ++number) {
    const pid_t child = Start(sets, {"--resume", "auto", "--set", "run.overwrite=true"});
    for (int i = 0; i < 30'000 && newest_of("") <= newest; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 100'000));
    // Two of three are aimed at a save that has begun.
    if (number % 3 != 0) {
      while (newest_of(".partial") <= newest_of("")) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3'000));
    }
    kill(child, SIGKILL);
    const int status = Wait(child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it came to its end before: " << folder_.Read("err");
    inside += newest_of(".partial") > newest_of("");
    ASSERT_GT(newest_of(""), newest) << folder_.Read("err");
    newest = newest_of("");
  }
  std::printf("%s: %d kills, %d of them within a save; %d steps saved\n", GetParam(), kKills,
              inside, newest);
  EXPECT_GE(inside, kKills / 2);
  const std::string stop = "train.stop_after=" + std::to_string(newest + 3);
  const Sets to_the_end = {kLong, "train.eval_every=0", "model.width=128", stop};
  ASSERT_EQ(Resume(to_the_end).exit_code, 0);
  EXPECT_EQ(Numbers(), NumbersOfWhole(to_the_end));
}

INSTANTIATE_TEST_SUITE_P(Ways, Killed, testing::Values("save.async=false", "save.async=true"),
                         [](const auto& info) { return info.index == 0 ? "Waiting" : "Async"; });

// No file may grow beyond this: a full disk, as a write sees it.
class NoRoom : public SnapshotCommand, public testing::WithParamInterface<const char*> {
 protected:
  Outcome TrainWithin(rlim_t bytes, const Sets& sets) const {
    rlimit old = {};
    getrlimit(RLIMIT_FSIZE, &old);
    const rlimit limit = {bytes, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Outcome outcome = Resume(sets);
    setrlimit(RLIMIT_FSIZE, &old);
    return outcome;
  }
};

TEST_P(NoRoom, TrainingGoesOnOrStopsAndKeepsWhatWasThere) {
  const Sets quiet = {"log.report=false", "save.keep=1", GetParam()};
  const auto with = [&](Sets sets) {
    sets.insert(sets.end(), quiet.begin(), quiet.end());
    return sets;
  };
  ASSERT_EQ(Train(with({"train.stop_after=5"})).exit_code, 0);
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000005"));

  const Outcome stops = TrainWithin(200'000, with({"save.on_error=stop"}));
  EXPECT_EQ(stops.exit_code, 1);
  EXPECT_THAT(stops.err, HasSubstr("no snapshot of step 10: "));
  EXPECT_THAT(stops.err, HasSubstr("rank-00000.safetensors: cannot be written: File too large"));
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000005"));

  const Outcome goes_on = TrainWithin(200'000, with({}));
  EXPECT_EQ(goes_on.exit_code, 0) << goes_on.err;
  EXPECT_THAT(goes_on.err, HasSubstr("warning: no snapshot of step 10: "));
  EXPECT_THAT(goes_on.err, HasSubstr("warning: no snapshot of step 12: "));
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000005"));
  EXPECT_EQ(Numbers().size(), 12u + 5);  // evaluations after 0, 4, 5, 8 and 12 steps
}

INSTANTIATE_TEST_SUITE_P(Ways, NoRoom, testing::Values("save.async=false", "save.async=true"),
                         [](const auto& info) { return info.index == 0 ? "Waiting" : "Async"; });

TEST_F(Stopped, AFolderThatVanishesIsSaidSo) {
  const pid_t child = Start({"save.every=20", "save.on_exit=false", "log.report=false"});
  for (int i = 0; i < 3000 && Snapshots().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::error_code error;
  for (int i = 0; i < 100 && fs::exists(run_ + "/snapshots"); ++i) {
    fs::remove_all(run_ + "/snapshots", error);  // while it may be written to
  }
  const int rows = Rows();
  AwaitRows(rows + 60);
  kill(child, SIGKILL);
  Wait(child);
  EXPECT_THAT(folder_.Read("err"), HasSubstr("warning: no snapshot of step "));
}

}  // namespace
}  // namespace plimsoll
