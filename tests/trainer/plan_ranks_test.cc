// `plimsoll plan --ranks`: every way to lay ranks out.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/trainer/budget_command.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using PlanRanks = BudgetCommand;

// Dividing takes less of each role's bytes; layouts that cannot be divided are named.
TEST_F(PlanRanks, LaysRanksOutInEveryWay) {
  const json meshes = PlanJson({"--ranks", "4"})["meshes"];
  ASSERT_EQ(meshes.size(), 9u);  // 4 × 1 and 2 × 2 in four stages, 1 × 4
  for (size_t first : {0, 4}) {
    const auto bytes = [&](size_t zero, const char* what) {
      return meshes[first + zero][what].get<int64_t>();
    };
    EXPECT_EQ(meshes[first + 3]["zero"], 3);
    EXPECT_LT(bytes(1, "state_bytes"), bytes(0, "state_bytes"));
    EXPECT_LT(bytes(3, "parameter_bytes"), bytes(1, "parameter_bytes"));
  }
  EXPECT_LT(meshes[4]["parameter_bytes"], meshes[0]["parameter_bytes"]);
  EXPECT_THAT(meshes[8]["problem"].get<std::string>(), HasSubstr("heads"));
  EXPECT_THAT(Plan({"--ranks", "2"}).out, HasSubstr("What each of 2 ranks takes"));
  EXPECT_FALSE(meshes[0].contains("predicted_step_ms"));  // ranks on CPUs share them
}

// For GPUs of one host it also says how fast each layout is, and first of all which is fastest.
TEST_F(PlanRanks, FindsTheFastestMesh) {
  const std::vector<std::string> gpus = {"--device", "h200", "--ranks", "2"};
  const json meshes = PlanJson(gpus)["meshes"];
  double most = 0;
  for (const json& mesh : meshes) most = std::max(most, mesh["tokens_per_s"].get<double>());
  int64_t least = std::numeric_limits<int64_t>::max();
  std::string best;
  for (const json& mesh : meshes) {
    ASSERT_EQ(mesh["fits"], true);
    const double tokens = mesh["tokens_per_s"], ms = mesh["predicted_step_ms"];
    EXPECT_GT(ms, 0);
    const int64_t bytes = mesh["process_bytes"];
    if (tokens * 1.005 < most || bytes >= least) continue;
    least = bytes;
    best = fmt::format("fastest: parallel: {{data: {}, tensor: {}, zero: {}}}, {:.1f} ms a step",
                       mesh["data"].get<int>(), mesh["tensor"].get<int>(), mesh["zero"].get<int>(),
                       ms);
  }
  const std::string out = Plan(gpus).out;
  EXPECT_THAT(out, testing::StartsWith(best));
  EXPECT_THAT(out, HasSubstr("\n*"));
  // Nothing is known of links between hosts.
  EXPECT_FALSE(
      PlanJson({"--device", "h200", "--ranks", "16"})["meshes"][0].contains("predicted_step_ms"));
  EXPECT_THAT(Plan({"--device", "h200", "--ranks", "16"}).out, testing::Not(HasSubstr("fastest")));
}

// What the file leaves open is chosen for each layout, on a GPU within its memory.
TEST_F(PlanRanks, ChoosesForEveryMesh) {
  const std::vector<std::string> open = {"--ranks", "2", "--set", "checkpointing.policy=auto"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), open.begin(), open.end());
    return more;
  };
  ExpectError(Plan(open), 2, {"checkpointing.policy: auto", "memory.budget, which is not set"});
  const auto first = [](const json& meshes) {
    return meshes["meshes"][0]["arena_bytes"].get<int64_t>();
  };
  const int64_t most = first(PlanJson({"--ranks", "2"})),
                least = first(PlanJson({"--ranks", "2", "--set", "checkpointing.policy=block"})),
                budget = (least + most) / 2;
  EXPECT_EQ(first(PlanJson(with({"--set", "memory.budget=1GiB"}))), most);
  const json tight = PlanJson(with({"--set", "memory.budget=" + std::to_string(budget)}))["meshes"];
  EXPECT_EQ(tight[0]["fits"], true);
  EXPECT_LE(tight[0]["arena_bytes"], budget);
  EXPECT_EQ(PlanJson(with({"--set", "memory.budget=1KiB"}))["meshes"][0]["fits"], false);
  EXPECT_THAT(Plan(with({"--device", "4090"})).out,
              HasSubstr("at the peak, by the fastest plan that fits\n"));
}

// A batch that cannot be split in one layout of the ranks does not affect the others.
TEST_F(PlanRanks, CutsTheBatchForEveryMesh) {
  const std::vector<std::string> batch = {"--set", "train.micro_batch=4", "--set",
                                          "train.global_batch=4"};
  const auto with = [&](const std::string& ranks) {
    std::vector<std::string> arguments = {"--ranks", ranks};
    arguments.insert(arguments.end(), batch.begin(), batch.end());
    return arguments;
  };
  const json four = PlanJson(with("4"))["meshes"];
  for (const json& mesh : four) {
    EXPECT_EQ(mesh.contains("problem"), mesh["tensor"] == 4) << mesh;  // heads
  }
  const json meshes = PlanJson(with("8"))["meshes"];
  EXPECT_THAT(meshes[0]["problem"].get<std::string>(),
              HasSubstr("4 sequences do not spread over 8"));
  EXPECT_FALSE(meshes[1].contains("problem"));  // 4 × 2
  ExpectError(Plan(with("5")), 2, {"4 sequences do not spread over 5 data ranks; use 5"});
}

// A file that leaves the layout open, or gives one, gets the same table.
TEST_F(PlanRanks, GoesThroughAllLayoutsWhateverTheFileSays) {
  const auto meshes = [&](const std::string& parallel) {
    return PlanJson({"--ranks", "4"}, kBudgetRun + ("parallel: " + parallel + "\n"));
  };
  const json open = meshes("{tensor: auto, zero: auto}");
  EXPECT_EQ(open["meshes"].size(), 9u);
  EXPECT_EQ(meshes("{data: 2, tensor: 2, zero: 3}"), open);
  EXPECT_EQ(meshes("{tensor: 4}"), open);
}

// What the command itself sets stays.
TEST_F(PlanRanks, KeepsWhatTheCommandSets) {
  const auto shapes = [&](const std::vector<std::string>& sets, const std::string& ranks) {
    const json plan = PlanJson(WithSets({"--ranks", ranks}, sets));
    std::vector<std::string> found;
    for (const json& mesh : plan.at("meshes")) {
      found.push_back(fmt::format("{}x{}/{}", mesh["data"].get<int>(), mesh["tensor"].get<int>(),
                                  mesh["zero"].get<int>()));
    }
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(shapes({"parallel.tensor=2"}, "4"), ElementsAre("2x2/0", "2x2/1", "2x2/2", "2x2/3"));
  EXPECT_THAT(shapes({"parallel.tensor=2", "parallel.zero=1"}, "4"), ElementsAre("2x2/1"));
  EXPECT_THAT(shapes({"parallel.data=4"}, "4"), ElementsAre("4x1/0", "4x1/1", "4x1/2", "4x1/3"));
  ExpectError(
      Plan({"--ranks", "4", "--set", "parallel.tensor=3"}), 2,
      {"--set: parallel.tensor: 1 data × 3 tensor × 1 pipeline ranks are 3, and --ranks asks "
       "for 4; give numbers that divide 4, or --ranks 3"});
}

// Of a file with stages, those with as many.
TEST_F(PlanRanks, LaysOutTheRanksOfStages) {
  const auto layouts = [&](const std::string& parallel, const std::vector<std::string>& sets) {
    std::vector<std::string> found;
    const json plan = PlanJson(WithSets({"--ranks", "8"}, sets),
                               kBudgetRun + ("parallel: {pipeline: 2" + parallel + "}\n"));
    for (const json& mesh : plan.at("meshes")) {
      EXPECT_EQ(mesh["pipeline"], 2);
      EXPECT_EQ(mesh.contains("problem"), mesh["tensor"] == 4) << mesh;  // heads
      found.push_back(fmt::format("{}x{}/{}", mesh["data"].get<int>(), mesh["tensor"].get<int>(),
                                  mesh["zero"].get<int>()));
    }
    return found;
  };
  using testing::ElementsAre;
  for (const char* parallel : {"", ", data: 4", ", tensor: 2, zero: 1", ", tensor: 3"}) {
    EXPECT_THAT(layouts(parallel, {}), ElementsAre("4x1/0", "4x1/1", "2x2/0", "2x2/1", "1x4/0"));
  }
  EXPECT_THAT(layouts("", {"parallel.tensor=2"}), ElementsAre("2x2/0", "2x2/1"));
  ExpectError(Plan({"--ranks", "3", "--set", "parallel.pipeline=2"}), 2,
              {"--set: parallel.pipeline: 2 stages do not divide 3 ranks"});
  ExpectError(Plan({"--set", "parallel.pipeline=2", "parallel.tensor=auto"}), 2,
              {"auto does not choose stages"});
}

// A layout whose stages cannot meet the budget has the row of its smallest plans, as a layout
// without stages has, and no text of advice.
TEST_F(PlanRanks, ShowsTheSmallestPlansOfStages) {
  const std::vector<std::string> args = {"--ranks", "4", "--set", "parallel.pipeline=2",
                                         "checkpointing.policy=auto"};
  const auto with = [&](const std::string& budget) {
    std::vector<std::string> all = args;
    all.push_back("memory.budget=" + budget);
    return all;
  };
  const json meshes = PlanJson(with("1KiB"))["meshes"];
  ASSERT_EQ(meshes.size(), 3u);
  std::vector<int64_t> needs;
  for (const json& mesh : meshes) {
    EXPECT_FALSE(mesh.contains("problem")) << mesh;
    EXPECT_EQ(mesh["fits"], false);
    needs.push_back(mesh["process_bytes"]);
  }
  EXPECT_THAT(Plan(with("1KiB")).out, testing::EndsWith("- beyond memory.budget (1.00 KiB)\n"));
  const int64_t least = *std::ranges::min_element(needs);
  ASSERT_LT(least, *std::ranges::max_element(needs));
  const json of_least = PlanJson(with(std::to_string(least)))["meshes"];
  for (size_t i = 0; i < needs.size(); ++i) {
    EXPECT_EQ(of_least[i]["fits"], needs[i] == least) << of_least[i];
  }
}

// A row says why a number that nobody wrote is impossible, and names no key.
TEST_F(PlanRanks, NamesWhatCannotBeShared) {
  const std::string unet =
      "model: {family: unet, image_height: 8, image_width: 8, levels: 2, features: 2, classes: 3}\n"
      "data: {source: synthetic_volumes}\n"
      "train: {steps: 1, micro_batch: 2, threads: 1}\n";
  const std::string why =
      "2 ranks would each do the same work: models of family unet have no layers that tensor ranks "
      "share";
  const json meshes = PlanJson({"--ranks", "2"}, unet)["meshes"];
  ASSERT_EQ(meshes.size(), 5u);
  EXPECT_EQ(meshes[4]["problem"], why);
  const std::string out = Plan({"--ranks", "2"}, unet).out;
  EXPECT_THAT(out, HasSubstr("  " + why + "\n"));
  EXPECT_THAT(out, testing::Not(HasSubstr("--set")));
  ExpectError(Plan({"--ranks", "2", "--set", "parallel.tensor=2"}, unet), 2,
              {"--set: parallel.tensor: " + why + "; leave it out"});
}

// The marks are explained where there are any.
TEST_F(PlanRanks, ExplainsItsMarks) {
  EXPECT_THAT(Plan({"--ranks", "2"}).out, testing::Not(HasSubstr("beyond")));
  EXPECT_THAT(
      Plan({"--ranks", "2", "--device", "h200"}).out,
      testing::EndsWith("* the fastest that fits, of those within 0.5 % the one that takes the "
                        "fewest bytes\n"));
  EXPECT_THAT(Plan({"--ranks", "2", "--set", "memory.budget=1KiB"}).out,
              testing::EndsWith("- beyond memory.budget (1.00 KiB)\n"));
}

}  // namespace
}  // namespace plimsoll
