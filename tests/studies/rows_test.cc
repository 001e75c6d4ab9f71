// From a study to its rows, and from rows to their runs.
#include "studies/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "studies/runner.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "trainer/config/load.h"
#include "trainer/resolve/from_config.h"

namespace plimsoll::studies {
namespace {

constexpr const char* kBase =
    "model: {family: gpt2, layers: 2, width: 32, heads: 2, vocab: 64, sequence: 16}\n"
    "data: {synthetic: true}\n"
    "train: {steps: 50, micro_batch: 2}\n"
    "memory: {calibrate: false}\n";

Study Parse(const std::string& text) { return ParseStudy("base: run.yaml\n" + text, "study.yaml"); }

std::vector<StudyRow> Grid(const std::string& text) {
  return ExpandGrid(Parse(text), config::LoadText(kBase, "run.yaml").config);
}

void ExpectRefused(const std::string& text, std::initializer_list<std::string_view> parts) {
  ExpectUserError([&] { Grid(text); }, parts);
}

std::vector<std::string> Names(const std::vector<StudyRow>& rows) {
  std::vector<std::string> names;
  for (const StudyRow& row : rows) names.push_back(row.name);
  return names;
}

using Strings = std::vector<std::string>;

TEST(Grid, TheLastAxisRunsFastest) {
  const auto rows = Grid("axes: {amp.dtype: [fp32, bf16], train.micro_batch: [1, 2]}\n");
  EXPECT_EQ(Names(rows), (Strings{"dtype=fp32, micro_batch=1", "dtype=fp32, micro_batch=2",
                                  "dtype=bf16, micro_batch=1", "dtype=bf16, micro_batch=2"}));
  EXPECT_EQ(rows[3].Sets(), (Strings{"amp.dtype=bf16", "train.micro_batch=2"}));
  EXPECT_EQ(rows[3].folder, "004-dtype-bf16-micro_batch-2");
}

TEST(Grid, SettingsMayBeMapsInMaps) {
  const auto rows = Grid(
      "variants: {a: {amp: {dtype: bf16, fp8: {recipe: current}}},\n"
      "           b: {amp.dtype: bf16, amp.fp8: {recipe: none}}, c: {amp.fp8.recipe: none}}\n");
  EXPECT_EQ(rows[0].Sets(), (Strings{"amp.dtype=bf16", "amp.fp8.recipe=current"}));
  EXPECT_EQ(rows[1].Sets(), (Strings{"amp.dtype=bf16", "amp.fp8.recipe=none"}));
  EXPECT_EQ(rows[2].Sets(), (Strings{"amp.fp8.recipe=none"}));
}

TEST(Grid, VariantsTakeEveryCombinationAndCommandsOne) {
  const auto rows = Grid(
      "set: {train.micro_batch: 4}\n"
      "variants: {a: {}, b: {train.micro_batch: 8}, c: {command: x}}\n"
      "axes: {train.accumulate: [1, 2]}\n");
  EXPECT_EQ(Names(rows), (Strings{"a, accumulate=1", "a, accumulate=2", "b, accumulate=1",
                                  "b, accumulate=2", "c"}));
  EXPECT_EQ(rows[0].Sets(), (Strings{"train.accumulate=1", "train.micro_batch=4"}));
  EXPECT_EQ(rows[2].Sets(), (Strings{"train.accumulate=1", "train.micro_batch=8"}));
  EXPECT_EQ(rows[4].command, "x");
}

TEST(Grid, SeedsAreRunsOfARow) {
  const auto rows = Grid(
      "variants: {a: {}, b: {amp.dtype: bf16}, c: {command: x}}\n"
      "axes: {train.seed: [1, 2], train.micro_batch: [2, 4], data.seed: [7, 8]}\n"
      "exclude: [{amp.dtype: bf16, train.seed: 2}]\n");
  EXPECT_EQ(Names(rows), (Strings{"a, micro_batch=2", "a, micro_batch=4", "b, micro_batch=2",
                                  "b, micro_batch=4", "c"}));
  EXPECT_EQ(rows[0].seeds.size(), 4u);
  EXPECT_EQ(rows[0].Sets(3), (Strings{"data.seed=8", "train.micro_batch=2", "train.seed=2"}));
  EXPECT_EQ(rows[2].seeds.size(), 2u);
  EXPECT_EQ(rows[4].seeds.size(), 4u);
  EXPECT_EQ(Names(Grid("axes: {train.seed: [1, 2]}\n")), (Strings{"base"}));
}

TEST(Grid, ExcludesAndIncludes) {
  const auto rows = Grid(
      "axes: {amp.dtype: [fp32, bf16], checkpointing.policy: [none, block]}\n"
      "exclude: [{amp.dtype: bf16, checkpointing.policy: none}]\n"
      "include: [{optimizer.state_dtype: int8}]\n");
  EXPECT_EQ(Names(rows), (Strings{"dtype=fp32, policy=none", "dtype=fp32, policy=block",
                                  "dtype=bf16, policy=block", "state_dtype=int8"}));
}

TEST(Grid, ExclusionsSeeWhatTheBaseHas) {
  // micro_batch is 2 in the base, and is no axis.
  const auto rows =
      Grid("variants: {a: {}, b: {train.micro_batch: 4}}\nexclude: [{train.micro_batch: 2}]\n");
  EXPECT_EQ(Names(rows), (Strings{"b"}));
}

TEST(Grid, RefusesWhatSaysNothing) {
  ExpectRefused("repeats: 1\n", {"study.yaml", "nothing to compare"});
  const std::string axes = "axes: {train.seed: [1]}\n";
  ExpectRefused(axes + "exclude: [{train.seed: 1}]\n", {"leaves no row"});
  ExpectRefused(axes + "exclude: [{train.seed: 2}]\n",
                {"study.yaml:3: exclude[0]: no row is like that"});
  ExpectRefused(axes + "include: [{train.seed: 1}]\n", {"there already"});
  ExpectRefused("variants: {plain: {}}\nbaseline: plian\n",
                {"study.yaml:3: baseline", "did you mean \"plain\"?"});
  ExpectRefused(
      "axes: {train.seed: {from: 1, to: 1000, step: 1},\n"
      "       train.micro_batch: {from: 1, to: 1000, step: 1}}\n",
      {"a grid of 1000000 rows", "at most 100000"});
}

TEST(Runs, AreShuffledAlikeEveryTimeAndCompleteInEveryRepeat) {
  Study study = Parse("variants: {a: {}}\nrepeats: 3\n");
  const std::vector<StudyRow> twenty(20, StudyRow());
  const std::vector<StudyRun> runs = OrderedRuns(study, twenty);
  EXPECT_EQ(runs, OrderedRuns(study, twenty));
  ASSERT_EQ(runs.size(), 60u);
  bool shuffled = false;
  for (size_t repeat = 0; repeat < 3; ++repeat) {
    std::set<size_t> rows;
    for (size_t i = 0; i < 20; ++i) {
      const StudyRun& run = runs[repeat * 20 + i];
      EXPECT_EQ(run.index, repeat);
      rows.insert(run.row);
      shuffled = shuffled || run.row != i;
    }
    EXPECT_EQ(rows.size(), 20u);
  }
  EXPECT_TRUE(shuffled);
  study.order_seed = 2;
  EXPECT_NE(runs, OrderedRuns(study, twenty));
  study.order = RunOrder::kWritten;
  EXPECT_EQ(OrderedRuns(study, twenty)[7], (StudyRun{7, 0}));
}

class Configured : public testing::Test {
 protected:
  std::vector<StudyRow> Rows(const std::string& text) {
    folder_.Write("run.yaml", kBase);
    study_ = ParseStudy("base: run.yaml\n" + text, folder_ / "study.yaml");
    return ConfigureRows(study_, ExpandGrid(study_, config::Load(study_.base).config));
  }
  const TempFolder folder_;
  Study study_;
};

TEST_F(Configured, RowsClaimEqualBitsWhereNoNumberDiffers) {
  const auto rows = Rows(
      "variants:\n"
      "  base: {}\n"
      "  block: {checkpointing.policy: block}\n"
      "  caching: {memory.allocator: caching}\n"
      "  host: {optimizer.place: host}\n"
      "  budget: {memory.budget: 1GiB, checkpointing.policy: auto}\n"
      "  bf16: {amp.dtype: bf16}\n"
      "  bf16 block: {amp.dtype: bf16, checkpointing.policy: block}\n"
      "  accumulated: {train: {micro_batch: 1, accumulate: 2}}\n"
      "  seed: {train.seed: 2}\n"
      "  ranks: {parallel.data: 2}\n"
      "  tied stages: {parallel.pipeline: 2}\n");
  const auto numbers = [&](size_t i) { return rows[i].facts.numbers; };
  for (size_t i = 1; i <= 4; ++i) EXPECT_EQ(numbers(i), numbers(0)) << rows[i].name;
  for (const size_t i : {5, 6, 7, 9, 10}) EXPECT_NE(numbers(i), numbers(0)) << rows[i].name;
  EXPECT_EQ(numbers(6), numbers(5));
  // Seeds distinguish runs, not rows.
  EXPECT_EQ(rows[8].facts.but_for_seed, rows[0].facts.but_for_seed);
  EXPECT_EQ(rows[0].run_seeds[0].Text(), "1337");
  EXPECT_EQ(rows[8].run_seeds[0].Text(), "2");
  EXPECT_TRUE(rows[4].facts.automatic);
  EXPECT_FALSE(rows[2].has_arena);
}

// On a CPU, unless they share a table or their ranks share a batch.
TEST_F(Configured, StagesClaimTheBitsOfOneRank) {
  const auto rows = Rows(
      "set: {device: cpu, model.tied: false, train: {micro_batch: 1, accumulate: 4}}\n"
      "variants:\n"
      "  base: {}\n"
      "  stages: {parallel.pipeline: 2}\n"
      "  block: {parallel.pipeline: 2, checkpointing.policy: block}\n"
      "  data: {parallel: {data: 2, pipeline: 2}}\n"
      "  tied: {parallel.pipeline: 2, model.tied: true}\n"
      "  tied alone: {model.tied: true}\n");
  for (const StudyRow& row : rows) EXPECT_EQ(row.refused, "") << row.name;
  const auto numbers = [&](size_t i) { return rows[i].facts.numbers; };
  EXPECT_EQ(numbers(1), numbers(0));
  EXPECT_EQ(numbers(2), numbers(0));
  EXPECT_NE(numbers(3), numbers(0));
  EXPECT_NE(numbers(4), numbers(5));
}

TEST_F(Configured, RanksFollowFromTheMesh) {
  const auto rows = Rows(
      "variants: {one: {}, data: {parallel.data: 3}, tensor: {parallel.tensor: 2},\n"
      "           both: {parallel: {data: 2, tensor: 2}}}\n");
  std::vector<int64_t> ranks;
  for (const StudyRow& row : rows) ranks.push_back(row.ranks);
  EXPECT_EQ(ranks, (std::vector<int64_t>{1, 3, 2, 4}));
  const auto all = Rows("variants: {one: {}, tensor: {parallel.tensor: 2}}\nlaunch: {ranks: 4}\n");
  for (const StudyRow& row : all) EXPECT_EQ(row.ranks, 4) << row.name;
  // Nor has the base as many as are launched.
  const auto own = Rows(
      "set: {parallel.data: 2}\nvariants: {one: {parallel.data: 4}, two: {}}\n"
      "launch: {ranks: 4}\n");
  EXPECT_EQ(own[0].refused, "");
  EXPECT_EQ(own[0].ranks, 4);
}

TEST_F(Configured, EverySeedHasItsName) {
  const auto rows = Rows("axes: {train.seed: [1, 2], model.seed: [2]}\n");
  ASSERT_EQ(rows[0].run_seeds.size(), 2u);
  EXPECT_EQ(rows[0].run_seeds[0].Text(), "train 1, model 2, data 1");
  EXPECT_EQ(rows[0].run_seeds[1].Text(), "2");
}

TEST_F(Configured, AMissingFileIsNotInfeasible) {
  const auto rows = Rows(
      "variants: {missing: {model: {init_from: no/such, family: null, layers: "
      "null, width: null, heads: null, vocab: null, sequence: null}}}\n");
  EXPECT_NE(rows[0].refused.find("no/such/config.json: there is no such file"), std::string::npos)
      << rows[0].refused;
  EXPECT_EQ(rows[0].refused_as, Status::kFailed);
}

TEST_F(Configured, ImpossibleRowsSayWhy) {
  const auto rows = Rows("variants: {fits: {}, heads: {model.heads: 5}, long: {train.steps: 7}}\n");
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(rows[1].refused_as, Status::kInfeasible);
  EXPECT_NE(rows[1].refused.find("do not divide model.width"), std::string::npos);
  EXPECT_NE(rows[2].refused.find("the study measures 20 after 3"), std::string::npos);
}

TEST_F(Configured, TheFingerprintIsOfWhatRuns) {
  const std::string variants = "variants: {a: {}, b: {amp.dtype: bf16}}\n";
  const auto print = [&](const std::string& text) {
    const auto rows = Rows(text);
    return FingerprintOf(study_, rows);
  };
  const std::string first = print(variants);
  EXPECT_EQ(print(variants), first);
  EXPECT_EQ(print(variants + "repeats: 3\ntitle: other\n"), first);
  EXPECT_NE(print(variants + "measure: {steps: 4}\n"), first);
  EXPECT_NE(print("variants: {a: {}, b: {amp.dtype: fp16}}\n"), first);
}

// All that the budget may decide, but for how the batch is cut.
TEST(Numbers, StayWhateverTheBudgetDecides) {
  for (const char* key :
       {"checkpointing.policy", "checkpointing.offload", "memory.budget", "memory.weights",
        "memory.gradients", "memory.host_blocks", "optimizer.place", "optimizer.in_backward",
        "parallel.reshard_after_forward", "train.blocks_first"}) {
    EXPECT_TRUE(KeepsNumbers(key)) << key;
  }
  for (const char* key : {"train.micro_batch", "optimizer.clip_by", "optimizer.state_dtype",
                          "amp.grad_dtype", "parallel.zero"}) {
    EXPECT_FALSE(KeepsNumbers(key)) << key;
  }
}

// Every study in configs/studies can be started unchanged.
TEST(ShippedStudies, HaveRowsThatCanRun) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs/studies")) {
    const std::string file = entry.path().string();
    const Study study = ParseStudy(config::ReadFile(file), file);
    const config::RunConfig base =
        trainer::LoadRun(study.base, {}, study.launch.ranks.value_or(1)).config;
    const std::vector<StudyRow> rows = ConfigureRows(study, ExpandGrid(study, base));
    EXPECT_GE(rows.size(), 3u) << file;
    for (const StudyRow& row : rows) {
      EXPECT_EQ(row.refused, "") << file << ": " << row.name;
    }
    ++files;
  }
  EXPECT_GE(files, 7);
}

}  // namespace
}  // namespace plimsoll::studies
