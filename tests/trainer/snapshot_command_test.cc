// `plimsoll train` with snapshots: a resumed run equals an uninterrupted one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "snapshots/manifest.h"
#include "snapshots/snapshot.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/snapshot_run.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A run that is stopped at one step, then at another, has the bits of an uninterrupted one.
class Resumed : public SnapshotCommand, public testing::WithParamInterface<Sets> {};

TEST_P(Resumed, HasTheBitsOfARunThatWasNeverStopped) {
  const std::vector<std::string> whole = NumbersOfWhole(GetParam());
  Sets sets = GetParam();
  const int first = 1 + static_cast<int>(random_() % 5);
  const int second = first + 1 + static_cast<int>(random_() % 5);
  sets.push_back("train.stop_after=" + std::to_string(first));
  ExpectExit(0, Train(sets));
  sets.back() = "train.stop_after=" + std::to_string(second);
  const Outcome middle = ExpectExit(0, Resume(sets));
  EXPECT_THAT(middle.out, HasSubstr("continues after " + std::to_string(first) + " steps"));
  sets.pop_back();
  const Outcome last = ExpectExit(0, Resume(sets));
  // The whole run lacks the evaluation after the last step before a stop.
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
        Sets{"amp.dtype=fp16", "amp.init_scale=1e6", "amp.growth_interval=2"},
        Sets{"optimizer.state_dtype=int8"}, Sets{"optimizer.state_dtype=bf16", "amp.dtype=bf16"},
        Sets{"optimizer.name=sgd", "optimizer.lr=0.1"}, Sets{"optimizer.name=muon"},
        Sets{"optimizer.name=muon", "optimizer.state_dtype=bf16", "amp.dtype=bf16",
             "optimizer.place=host", "save.async=true"},
        Sets{"optimizer.place=host", "amp.dtype=bf16"}, Sets{"optimizer.ema=0.9"},
        Sets{"optimizer.ema=0.9", "optimizer.ema_warmup=true", "amp.dtype=fp16",
             "amp.init_scale=1e6"},
        Sets{"optimizer.ema=0.9", "amp.dtype=bf16", "optimizer.place=host", "save.async=true"},
        Sets{"optimizer.clip_by=last_step", "optimizer.clip_grad_norm=0.05",
             "optimizer.in_backward=true", "save.async=true"},
        Sets{"memory.weights=host", "optimizer.place=host", "save.async=true"},
        Sets{"memory.weights=host", "memory.gradients=host", "optimizer.in_backward=true",
             "optimizer.clip_grad_norm=0", "train.accumulate=3", "train.micro_batch=2"},
        Sets{"train.accumulate=3", "train.micro_batch=2"},
        Sets{"checkpointing.policy=none", "checkpointing.offload=[activations]"},
        Sets{"checkpointing.policy=auto", "memory.budget=3MiB"}, Sets{"memory.allocator=caching"},
        Sets{"data.order=consecutive"}, Sets{"debug.poison=true"}, Sets{"save.async=true"},
        Sets{"save.async=true", "save.every=1", "amp.dtype=bf16", "optimizer.place=host"},
        Sets{"save.async=true", "amp.dtype=fp16", "amp.init_scale=1e6", "debug.poison=true"},
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
  ExpectExit(0, Train({"model.dropout=0", "train.stop_after=6"}));
  ExpectExit(0, Resume({"model.dropout=0", "train.micro_batch=2", "train.accumulate=2",
                        "checkpointing.policy=block", "optimizer.place=host", "train.threads=1",
                        "run.name=a", "run.tags=[b]", "run.notes=c"}));
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

TEST_F(SnapshotCommand, AveragesMayBeginAndEnd) {
  ExpectExit(0, Train({"train.stop_after=5"}));
  ExpectExit(0, Resume({"optimizer.ema=0.5", "train.stop_after=8"}));
  const json row = json::parse(Numbers().back());
  EXPECT_GT(row.at("eval_ema_loss").get<double>(), row.at("eval_loss").get<double>());
  ExpectExit(0, Resume({"optimizer.ema=0"}));
  EXPECT_FALSE(json::parse(Numbers().back()).contains("eval_ema_loss"));
}

// The norm of the last step begins at zero, which clips nothing.
TEST_F(SnapshotCommand, ClippingMayChange) {
  ExpectExit(0, Train({"train.stop_after=5"}));
  ExpectExit(0, Resume({"optimizer.clip_by=last_step", "train.stop_after=8"}));
  ExpectExit(2, Resume({}), {"optimizer.clip_by"});
  ExpectExit(0, Resume({"optimizer.clip_by=parameter"}));
}

TEST_F(SnapshotCommand, KeepsWhatItIsTold) {
  ExpectExit(0, Train({"save.every=2", "save.keep=1", "save.keep_every=6", "train.steps=11"}));
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000006", "step-000000011"));
  // The loss improves, until another rate ruins everything.
  const Sets best = {"save.every=2", "save.keep=1", "save.best=true"};
  Sets sets = {"run.overwrite=true", "train.stop_after=8"};
  sets.insert(sets.end(), best.begin(), best.end());
  ExpectExit(0, Train(sets));
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000008"));
  sets = {"optimizer.lr=1", "schedule.name=constant"};
  sets.insert(sets.end(), best.begin(), best.end());
  ExpectExit(0, Resume(sets));
  EXPECT_THAT(Snapshots(), ElementsAre("step-000000008", "step-000000012"));
}

TEST_F(SnapshotCommand, ABranchFromASnapshotLeavesItsRunAlone) {
  ExpectExit(0, Train({"save.keep=0"}));
  const std::vector<std::string> whole = Numbers(), snapshots = Snapshots();
  const std::string from = Snapshot(5);
  run_ = folder_ / "branch";
  ExpectExit(0, Resume({"optimizer.lr=1e-3"}, from));
  EXPECT_THAT(Numbers().front(), HasSubstr("\"step\":5"));
  EXPECT_THAT(Numbers().front(), testing::Ne(whole[7]));
  run_ = folder_ / "run";
  EXPECT_EQ(Numbers(), whole);
  EXPECT_EQ(Snapshots(), snapshots);
  // From an earlier snapshot of the same run: the later ones are replaced.
  ExpectExit(0, Resume({}, from + "/"));
  EXPECT_EQ(Numbers(), whole);
}

TEST_F(SnapshotCommand, WhatContradictsTheSnapshotIsListed) {
  ExpectExit(0, Train({"train.stop_after=5"}));
  const std::vector<std::string> numbers = Numbers();
  const auto refused = [&](const Sets& sets, const std::vector<std::string>& parts) {
    const Outcome outcome = ExpectExit(2, Resume(sets));
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

  // Changes of the course must be asked for.
  std::string text = ReadFile(yaml_);
  const std::string rate = "lr: 1e-2", steps = "micro_batch: 4";
  text.replace(text.find(rate), rate.size(), "lr: 2e-2");
  text.replace(text.find(steps), steps.size(), "micro_batch: 2");
  WriteFile(yaml_, text);
  refused({}, {"would not continue", "optimizer.lr: 0.02, in the snapshot 0.01",
               "2 sequences a step, in the snapshot 4", "--set"});
  ExpectExit(0, Resume({"optimizer.lr=2e-2", "train.micro_batch=2"}));
}

// A run that drops elements says that an earlier version would have dropped others; once, as its
// own snapshots name today's masks.
TEST_F(SnapshotCommand, SnapshotsOfOtherMasksOfDropoutGoOnWithAWarning) {
  for (const char* dropout : {"0.1", "0"}) {
    const Sets sets = {std::string("model.dropout=") + dropout, "run.overwrite=true"};
    Sets some = sets;
    some.emplace_back("train.stop_after=5");
    ExpectExit(0, Train(some));
    snapshots::Manifest manifest = snapshots::Snapshot(Snapshot(5)).manifest();
    json record = json::parse(manifest.run);
    ASSERT_EQ(record.erase("dropout_map"), 1u);
    manifest.run = record.dump();
    WriteFile(Snapshot(5) + "/manifest.json", snapshots::ToText(manifest));

    some.back() = "train.stop_after=7";
    const Outcome outcome = ExpectExit(0, Resume(some));
    EXPECT_THAT(outcome.out, HasSubstr("continues after 5 steps"));
    const std::string warning = "warning: " + Snapshot(5) + ": written by a version of plimsoll";
    EXPECT_EQ(outcome.err.find(warning) != std::string::npos, dropout == std::string("0.1"));
    const Outcome again = ExpectExit(0, Resume(sets));
    EXPECT_THAT(again.err, Not(HasSubstr("masks")));
  }
}

// A cut of the batch changes numbers: a run that chose one keeps it, whatever it would choose now.
TEST_F(SnapshotCommand, ACutOfTheBatchThatWasChosenStays) {
  Sets sets = {"train.micro_batch=auto", "train.global_batch=12", "checkpointing.policy=auto",
               "memory.budget=3MiB"};
  const std::vector<std::string> whole = NumbersOfWhole(sets);
  sets.push_back("train.stop_after=4");
  ExpectExit(0, Train(sets));
  sets.pop_back();
  sets.back() = "memory.budget=16MiB";
  const Outcome resumed = ExpectExit(0, Resume(sets));
  ExpectText(resumed.out, {"train.micro_batch: 4, as the run chose before its snapshot",
                           "keep all"});  // what keeps numbers is chosen anew
  EXPECT_EQ(Numbers(), whole);
  const std::vector<std::string> roomy = NumbersOfWhole(sets);
  EXPECT_NE(roomy, whole);  // the other cut rounds otherwise
  // Of another batch it would be another cut.
  sets[1] = "train.global_batch=8";
  const Outcome other = Resume(sets, Snapshot(4));
  EXPECT_THAT(other.out, Not(HasSubstr("as the run chose")));
}

// Batches of another size read on where the last one ended.
TEST_F(SnapshotCommand, AnotherBatchGoesOnInTheData) {
  ExpectExit(0, Train({"train.stop_after=6"}));
  ExpectExit(0, Resume({"train.micro_batch=2", "train.stop_after=8"}));
  const json manifest = json::parse(ReadFile(Snapshot(8) + "/manifest.json"));
  EXPECT_EQ(manifest.at("run").at("sequences"), 6 * 4 + 2 * 2);
}

TEST_F(SnapshotCommand, WithoutASnapshotAutoStartsFromTheBeginning) {
  ExpectExit(0, Resume({"train.stop_after=2", "save.every=0"}));
  // But it doesn't replace a run without snapshots.
  const Outcome outcome =
      ExpectExit(2, Resume(), {"holds a run already, without a snapshot to go on from; "});
  EXPECT_THAT(outcome.err, Not(HasSubstr("--resume auto")));
  ExpectExit(2, RunPlimsoll({"inspect", run_}), {": this run has no whole snapshot"});
  ExpectExit(2, Resume({}, folder_ / "nowhere"), {"neither a snapshot"});
}

// What a scheduler starts again and again: it never loses what there is to go on from.
TEST_F(SnapshotCommand, AutoWithOverwriteReplacesOnlyWhatHasNoSnapshot) {
  const auto start = [&](Sets sets) {
    sets.push_back("run.overwrite=true");
    return Resume(sets);
  };
  // An attempt that got nowhere is replaced by a run from the beginning.
  ExpectExit(0, start({"train.stop_after=3", "save.every=0"}));
  ExpectExit(0, start({"train.stop_after=5"}));
  EXPECT_EQ(Snapshots(), (std::vector<std::string>{"step-000000005"}));
  const std::vector<std::string> five = Numbers();
  // With a snapshot the run continues, and keeps its rows.
  const Outcome on = ExpectExit(0, start({"train.stop_after=7", "save.every=0"}));
  EXPECT_THAT(on.out, HasSubstr("continues after 5 steps"));
  std::vector<std::string> rows = Numbers();
  ASSERT_GT(rows.size(), five.size());
  rows.resize(five.size());
  EXPECT_EQ(rows, five);
  // A start that fails its checks leaves all as it is, and so does one whose snapshots are damaged.
  const std::string metrics = ReadFile(run_ + "/metrics.jsonl");
  ExpectExit(2, start({"data.train=" + (folder_ / "nothing")}));
  ExpectExit(2, start({"model.width=32"}));
  WriteFile(Snapshot(5) + "/rank-00000.safetensors", "damaged");
  ExpectExit(2, start({}), {"none of the snapshots is complete"});
  EXPECT_EQ(ReadFile(run_ + "/metrics.jsonl"), metrics);
}

TEST_F(SnapshotCommand, ADamagedSnapshotIsNamedAndAnOlderOneTaken) {
  const std::vector<std::string> whole = NumbersOfWhole({"save.keep=0"});
  ExpectExit(0, Train({"save.keep=0"}));
  const std::string shard = Snapshot(5) + "/rank-00000.safetensors";
  for (const std::string& name : {std::string("12"), std::string("10")}) {
    const std::string file = run_ + "/snapshots/step-0000000" + name + "/rank-00000.safetensors";
    std::string content = ReadFile(file);
    content[content.size() - 5] ^= 4;
    WriteFile(file, content);
  }
  const Outcome outcome = ExpectExit(0, Resume({"save.keep=0"}));
  ExpectText(outcome.err, {"step-000000012/rank-00000.safetensors: tensor \"",
                           "step-000000010/rank-00000.safetensors: tensor \""});
  EXPECT_THAT(outcome.out, HasSubstr("continues after 5 steps"));
  EXPECT_EQ(Numbers(), whole);
  for (const char* name : {"05", "10", "12"}) {
    fs::remove(run_ + "/snapshots/step-0000000" + name + "/manifest.json");
  }
  const Outcome none = ExpectExit(2, Resume());
  EXPECT_THAT(none.err, HasSubstr("none of the snapshots is complete"));
}

TEST_F(SnapshotCommand, SamplesBehindTheSnapshotGo) {
  const Sets sets = {"train.sample_every=2", "sample.tokens=5", "save.keep=0", "train.steps=10"};
  const auto samples = [&] { return ReadFile(run_ + "/samples.jsonl"); };
  ExpectExit(0, Train(sets));
  const std::string whole = samples();
  EXPECT_EQ(std::ranges::count(whole, '\n'), 5);
  ExpectExit(0, RunPlimsoll(Arguments(sets, {"--resume", Snapshot(5)})));
  EXPECT_EQ(samples(), whole);
  // Those of two and four steps were there; none is left where none is asked for.
  ASSERT_EQ(RunPlimsoll(Arguments({"save.keep=0", "train.steps=10"}, {"--resume", Snapshot(5)}))
                .exit_code,
            0);
  EXPECT_EQ(samples(), whole.substr(0, samples().size()));
  EXPECT_EQ(std::ranges::count(samples(), '\n'), 2);
}

TEST_F(SnapshotCommand, MembersOfMetricsThatItDoesNotKnowStay) {
  ExpectExit(0, Train({"train.stop_after=5"}));
  const std::string metrics = run_ + "/metrics.jsonl", rows = ReadFile(metrics);
  std::string first = rows.substr(0, rows.find('\n'));
  const std::string rest = rows.substr(first.size());
  first.replace(first.size() - 1, 1, ",\"mood\":0.5,\"odd\":{\"a\":[1,2,3]}}");
  WriteFile(metrics, "no row\n" + first + rest);
  const Outcome refused = ExpectExit(2, Resume(), {metrics + ":1: is no row of a run"});
  EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;

  WriteFile(metrics, first + rest);
  ExpectExit(0, Resume());
  EXPECT_THAT(ReadFile(metrics), testing::StartsWith(first + "\n"));
  EXPECT_EQ(Numbers().size(), 12u + 5u);  // evaluations after 0, 4, 5, 8 and 12 steps
  const std::string table = ReadFile(run_ + "/metrics.csv");
  EXPECT_THAT(table.substr(0, table.find('\n')), testing::EndsWith(",mood,odd"));
  EXPECT_THAT(table, HasSubstr(",0.5,\"{\"\"a\"\":[1,2,3]}\"\n"));
}

// The scales of amp.fp8.recipe: delayed are of certain layers.
TEST_F(SnapshotCommand, ScalesOfOtherLayersBeginAnew) {
  const std::string anew = "the scales of amp.fp8 begin anew";
  const Sets sets = {"amp.dtype=bf16", "amp.fp8.recipe=delayed", "amp.fp8.skip_ends=0",
                     "save.keep=0"};
  const auto skipping = [&](const char* pattern) {
    Sets all = sets;
    all.push_back(std::string("amp.fp8.skip=[\"") + pattern + "\"]");
    return all;
  };
  const Sets second = skipping("block.0.*");
  ExpectExit(0, Train(second));
  const Outcome same = ExpectExit(0, Resume(second, Snapshot(5)));
  EXPECT_THAT(same.out, Not(HasSubstr(anew)));
  const Outcome other = ExpectExit(0, Resume(skipping("block.1.*"), Snapshot(5)));
  EXPECT_THAT(other.out, HasSubstr(anew + ": other layers compute in 8 bits than in the "
                                          "snapshot\n"));
}

TEST_F(SnapshotCommand, InspectShowsAndVerifies) {
  ExpectExit(0, Train());
  const std::string newest = run_ + "/snapshots/step-000000012";
  const Outcome whole = ExpectExit(0, RunPlimsoll({"inspect", newest}));
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
    const Outcome damaged = ExpectExit(2, RunPlimsoll({"inspect", path}),
                                       {shard + ": tensor \"", "checksum does not match"});
    EXPECT_EQ(damaged.out.find("every checksum"), std::string::npos);
  }
  EXPECT_THAT(RunPlimsoll({"inspect", run_}).out, HasSubstr("step-000000010: "));
  ExpectExit(2, RunPlimsoll({"inspect", folder_.path()}),
             {folder_.path() + ": neither a snapshot (manifest.json) nor "
                               "a run directory"});
  const Outcome missing = ExpectExit(2, RunPlimsoll({"inspect", folder_ / "missing"}));
  EXPECT_THAT(missing.err, HasSubstr("missing: there is no such folder; name a snapshot"));
}

}  // namespace
}  // namespace plimsoll
