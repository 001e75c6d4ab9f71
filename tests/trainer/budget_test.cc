// `plimsoll plan` and `plimsoll train` within a budget, as users run them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/columns.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/budget_command.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

TEST_F(BudgetCommand, PlanPredictsTheStep) {
  const json plan = PlanJson({});
  EXPECT_GT(plan["predicted_step_ms"].get<double>(), 0);
  EXPECT_FALSE(plan.contains("candidates"));
  EXPECT_THAT(Plan({}).out, HasSubstr("predicted step"));
}

// What a GPU has is compared with what the plan takes; only a budget that was given makes an error.
TEST_F(BudgetCommand, PlanAnswersFirst) {
  EXPECT_THAT(Answer({"--device", "4090"}),
              MatchesRegex("fits NVIDIA GeForce RTX 4090 \\(24.0 GiB\\): takes [0-9.]+ MiB of "
                           "NVIDIA GeForce RTX 4090, [0-9.]+ GiB to spare\n"
                           "predicted step: [0-9.]+ ms, [0-9.]+[kM]? tokens/s \\(.*\\)\n"));
  EXPECT_THAT(Answer({}), testing::StartsWith("fits this machine ("));
  EXPECT_THAT(Answer({"--budget", "1GiB"}),
              MatchesRegex("fits memory.budget \\(1.00 GiB\\): (.|\n)*\nchosen: keep all\n"));
  EXPECT_THAT(Answer({"--device", "4090", "--set", "optimizer.place=host"}),
              HasSubstr(" to spare; and 4"));
  const std::string large =
      "model: {family: gpt2, layers: 2, width: 16384, heads: 64, vocab: 96, sequence: 32}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 1, eval_every: 0}\n";
  EXPECT_THAT(Unwrapped(Plan({"--device", "4090"}, large).out),
              MatchesRegex("does not fit NVIDIA GeForce RTX 4090 \\(24.0 GiB\\): takes [0-9.]+ "
                           "GiB, [0-9.]+ GiB too much; (.|\n)*"));
  ExpectExit(3, Plan({"--device", "4090", "--budget", "24GiB"}, large));
  const std::vector<std::string> ranks = {"--device", "4090", "--ranks", "4"};
  int beyond = 0;
  const json meshes = PlanJson(ranks, large)["meshes"];
  for (const json& mesh : meshes) {
    EXPECT_EQ(mesh["fits"], mesh["process_bytes"] <= int64_t{24564} << 20) << mesh;
    beyond += !mesh["fits"].get<bool>();
  }
  EXPECT_GT(beyond, 0);
  const json tight = PlanJson({"--device", "4090", "--ranks", "2", "--set", "optimizer.place=host",
                               "memory.host_budget=1KiB"})["meshes"];
  for (const json& mesh : tight) EXPECT_EQ(mesh["fits"], false) << mesh;
  const std::string table = Plan(ranks, large).out;
  EXPECT_THAT(table, HasSubstr("- beyond NVIDIA GeForce RTX 4090 (24.0 GiB)\n"));
  EXPECT_EQ(std::ranges::count(table.substr(table.find('\n')), '-'), beyond + 1) << table;
}

// A plan that is too large for its GPU is shown, after the changes that make it fit. Each of them
// does when it is made.
TEST_F(BudgetCommand, PlanForATooSmallGpuSaysWhatFits) {
  const std::string large =
      "model: {family: gpt2, layers: 8, width: 1024, heads: 8, vocab: 96, sequence: 512}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 48, eval_every: 0}\n";
  const std::vector<std::string> card = {"--device", "4060ti-8gb"};
  const Outcome shown = ExpectExit(3, Plan(card, large));
  const std::string first = Unwrapped(shown.out);
  EXPECT_THAT(first, MatchesRegex("does not fit NVIDIA GeForce RTX 4060 Ti 8 GB \\(8.00 GiB\\): "
                                  "takes [0-9.]+ GiB, [0-9.]+ GiB too much; it would fit with "
                                  "checkpointing.policy: auto with memory.budget: 90% \\([0-9.]+ "
                                  "GiB\\)(,| or) train.micro_batch: (.|\n)*"));
  EXPECT_THAT(shown.out, HasSubstr("FLOPs a step"));
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = card;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const Outcome json_shown = ExpectExit(3, Plan(with({"--json"}), large));
  const json plan = json::parse(json_shown.out);
  EXPECT_EQ(plan["fits"], false);
  ASSERT_GT(plan["ways_to_fit"].size(), 1u);
  for (const json& way : plan["ways_to_fit"]) {
    std::vector<std::string> sets = {"--set"};
    for (const json& set : way["set"]) sets.push_back(set);
    const json changed = PlanJson(with(sets), large);
    EXPECT_EQ(changed["fits"], true) << way;
    const int64_t bytes = changed["process_bytes"];
    if (way["set"][0] == "checkpointing.policy=auto") {
      // The smallest plan; within the budget a faster one is chosen.
      EXPECT_LE(way["process_bytes"], bytes);
      const std::string least = std::to_string(way["process_bytes"].get<int64_t>() - (4 << 20));
      const std::string said = fmt::format("{} bytes", way["process_bytes"].get<int64_t>());
      ExpectError(Plan(with({"--budget", least}), large), 3, {"the smallest plan needs", said});
      ExpectExit(0, Plan(with({"--budget", way["process_bytes"].dump()}), large));
    } else {
      EXPECT_LE(bytes, way["process_bytes"]) << way;
    }
  }
  EXPECT_EQ(PlanJson(with({"--set", "train.micro_batch=1"}), large)["fits"], true);
}

// A budget of more than the card has is no reason to plan beyond the card.
TEST_F(BudgetCommand, ABudgetEndsWhereTheCardDoes) {
  const std::string large =
      "model: {family: gpt2, layers: 8, width: 1024, heads: 8, vocab: 96, sequence: 512}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 48, eval_every: 0}\n"
      "memory: {budget: 40GiB}\n";
  const std::vector<std::string> card = {"--device", "4060ti-8gb"};
  const Outcome fixed = ExpectExit(3, Plan(card, large));
  EXPECT_THAT(Unwrapped(fixed.out),
              MatchesRegex("does not fit NVIDIA GeForce RTX 4060 Ti 8 GB \\(8.00 GiB\\), less than "
                           "memory.budget \\(40.0 GiB\\): takes (.|\n)*"));
  const json chosen =
      PlanJson({"--device", "4060ti-8gb", "--set", "checkpointing.policy=auto"}, large);
  EXPECT_LE(chosen["process_bytes"], int64_t{8188} << 20);
  EXPECT_LE(chosen["budget_bytes"], int64_t{8188} << 20);
  ExpectError(
      Plan({"--device", "4060ti-8gb", "--set", "checkpointing.policy=auto", "model.width=16384",
            "model.layers=2"},
           large),
      3,
      {"memory.budget: 8.00 GiB", "which is all that an NVIDIA GeForce RTX 4060 Ti 8 GB has,",
       "less than the parameters alone"});
}

// A run file may name the GPU that it was written for.
TEST_F(BudgetCommand, PlanIsMadeForTheGpuOfTheFile) {
  EXPECT_EQ(PlanMade({"--set", "memory.device=a100-40gb"}), PlanMade({"--device", "a100-40gb"}));
  EXPECT_EQ(PlanMade({"--set", "memory.device=a100-40gb", "--device", "cpu"}), PlanMade({}));
  ExpectError(Plan({"--set", "memory.device=h2000"}), 2,
              {"--set: memory.device: h2000: unknown (did you mean h200?)"});
  ExpectError(RunPlimsoll({"config", folder_ / "run.yaml", "--set", "memory.device=h2000"}), 2,
              {"--set: memory.device: h2000: unknown"});
  ExpectError(Plan({"--set", "memory.device=h200", "device=cpu"}), 2,
              {"memory.device: names a GPU, and device is cpu"});
  const Outcome host = Plan({"--set", "memory.device=h200", "optimizer.place=host"});
  EXPECT_THAT(host.err, Not(HasSubstr("on a CPU")));
}

// A GPU without a kernel is no reason against a plan; it says so.
TEST_F(BudgetCommand, ACpuHasOneMemory) {
  const std::vector<std::string> places = {"optimizer.place", "memory.weights", "memory.gradients"};
  std::vector<std::string> open, host = {"--set", "train.accumulate=2"}, here = host;
  for (const std::string& place : places) {
    open.insert(open.end(), {"--set", place + "=auto"});
    host.insert(host.end(), {"--set", place + "=host"});
  }
  open.insert(open.end(), host.begin(), host.begin() + 2);
  const int64_t arena = PlanJson(here)["arena_bytes"];
  const Outcome asked = Plan(host);
  for (const std::string& place : places) {
    EXPECT_THAT(asked.err, HasSubstr(place + ": wins nothing on a CPU"));
  }
  const json plan = PlanJson(host);
  const int64_t both = plan["arena_bytes"].get<int64_t>() + plan["host_arena_bytes"].get<int64_t>();
  ASSERT_LT(plan["arena_bytes"], arena);
  ASSERT_GE(both, arena);

  const auto within = [&](std::vector<std::string> run, int64_t bytes) {
    run.insert(run.end(),
               {"--set", "checkpointing.policy=none", "--budget", std::to_string(bytes)});
    return run;
  };
  EXPECT_EQ(PlanJson(within(open, arena))["host_arena_bytes"], 0);
  std::vector<std::string> chosen = within(open, 2 * arena);
  chosen.insert(chosen.end(), {"--set", "checkpointing.policy=auto"});
  EXPECT_THAT(Plan(chosen).out,
              HasSubstr("optimizer.place: device, because on a CPU the host's memory is the same"));
  // Where nothing else is open, there is nothing to choose and no budget to choose it by.
  EXPECT_EQ(PlanJson(open)["arena_bytes"], arena);
  std::string wide = kBudgetRun;
  wide.replace(wide.find("width: 32"), 9, "width: 256");
  const int64_t least = PlanJson({"--set", "train.accumulate=2"}, wide)["arena_bytes"];
  EXPECT_THAT(Plan(within({"--set", "memory.weights=host", "train.accumulate=2"}, least), wide).err,
              HasSubstr("memory.weights: device ("));
  const Outcome refused = ExpectExit(3, Plan(within(open, arena - 1)));
  EXPECT_THAT(refused.err, Not(HasSubstr("host")));
  ExpectExit(0, Plan(within(host, both)));
  // Where both arenas stand beside the budget, they stand there together; the picture of one has
  // the line where the other leaves it.
  std::vector<std::string> drawn = within(host, both + 4096);
  drawn.insert(drawn.end(), {"--html", folder_ / "plan.html"});
  ExpectExit(0, Plan(drawn));
  EXPECT_THAT(ReadFile(folder_ / "plan.html"),
              HasSubstr(fmt::format("\"label\":\"budget\",\"value\":{}}}",
                                    plan["arena_bytes"].get<int64_t>() + 4096)));
  std::vector<std::string> train = {"train", folder_ / "run.yaml",
                                    "--set", "run.dir=" + folder_ / "run",
                                    "--set", "checkpointing.policy=none",
                                    "--set", "memory.budget=" + std::to_string(both + 4096)};
  train.insert(train.end(), host.begin(), host.end());
  const Outcome trained = ExpectExit(0, RunPlimsoll(train));
  EXPECT_THAT(trained.out, HasSubstr(fmt::format("arenas {} as planned of {}: ", FormatBytes(both),
                                                 FormatBytes(both + 4096))));
  EXPECT_THAT(Plan(within(host, both - 1)).err,
              HasSubstr(fmt::format("the plan needs {} ({} bytes", FormatBytes(both), both)));
}

// As the help writes it; what follows a setting and is none is another argument.
TEST_F(BudgetCommand, SeveralSettingsFollowOneSet) {
  const json plan =
      PlanJson({"--set", "train.micro_batch=2", "train.accumulate=3", "--device", "cpu"});
  EXPECT_EQ(plan["micro_batch"], 2);
  EXPECT_EQ(plan["accumulate"], 3);
}

// Configurations can be named without the repository; a file of that name on disk takes precedence.
TEST_F(BudgetCommand, ConfigurationsComeWithTheProgram) {
  const std::string extends =
      "extends: configs/models/gpt2-124m.yaml\nmemory: {calibrate: false}\n";
  const json shipped = PlanJson({"--set", "train.micro_batch=1"}, extends);
  EXPECT_EQ(shipped["parameters"], 124'475'904);
  const Outcome written = ExpectExit(
      0, RunPlimsoll({"config", "--for", "gpt2-124m", "--device", "h200", "--budget", "24GiB"}));
  EXPECT_THAT(written.out, HasSubstr("layers: 12"));
  ExpectExit(2, RunPlimsoll({"plan", "configs/techniques/nothing.yaml"}));

  std::filesystem::create_directories(folder_ / "configs/models");
  WriteFile(folder_ / "configs/models/gpt2-124m.yaml", kBudgetRun);
  EXPECT_LT(PlanJson({}, extends)["parameters"], 1'000'000);
}

// Plans for a GPU that isn't here: its memory, the memory of a process on it, and its alignment.
TEST_F(BudgetCommand, PlanIsMadeForAnyDevice) {
  const json here = PlanMade({}), gpu = PlanJson({"--device", "a100-40gb"});
  EXPECT_EQ(PlanMade({"--device", "cpu"}), here);
  EXPECT_GT(gpu["arena_bytes"], here["arena_bytes"]);  // tensors lie at multiples of 256 bytes
  EXPECT_THAT(Plan({"--device", "a100-40gb"}).out, HasSubstr("process on NVIDIA A100 40 GB: "));
  EXPECT_EQ(PlanJson({"--device", "a100-40gb", "--budget", "50%"})["budget_bytes"],
            int64_t{20} << 30);
  const json meshes = PlanJson({"--device", "h200", "--ranks", "2"})["meshes"];
  for (const json& mesh : meshes) {
    EXPECT_GT(mesh["process_bytes"], mesh["arena_bytes"]);
  }
}

// The plan names the device whose rates give the times.
TEST_F(BudgetCommand, PlanSaysWhoseRatesItsTimesAreBy) {
  EXPECT_THAT(Plan({"--device", "h200"}).out,
              HasSubstr(" tokens/s (by built-in rates of an NVIDIA H200)"));
  EXPECT_THAT(Answer({"--device", "t4"}),
              HasSubstr("(by built-in rates of an NVIDIA H200 without Hopper's kernels, scaled to "
                        "the data sheet of an NVIDIA T4, never measured there)"));
  EXPECT_GT(PlanJson({"--device", "t4"})["predicted_step_ms"].get<double>(),
            PlanJson({"--device", "h200"})["predicted_step_ms"].get<double>());
  EXPECT_EQ(PlanJson({"--device", "h200"})["rates"], "by built-in rates of an NVIDIA H200");
  EXPECT_THAT(Plan({"--set", "memory.calibrate=false"}).out,
              HasSubstr("(by built-in rates, memory.calibrate being false)"));
}

// Rates that were measured here have a day. Where they chose a plan whose steps take another time,
// the run's end says so: here they are of a day on which all was far slower.
TEST_F(BudgetCommand, StaleRatesAreSaid) {
  const std::string cache = "export XDG_CACHE_HOME=" + folder_ / "cache" + "; ";
  const std::string here = " " + folder_.Write("run.yaml", kBudgetRun) +
                           " --set memory.calibrate=true train.steps=6 run.dir=" + folder_ / "run" +
                           " ";
  const auto shell = [&](const std::string& command) {
    const Outcome outcome = ExpectExit(0, RunShell(cache + command));
    return std::regex_replace(outcome.out, std::regex("\n  "), " ");
  };
  EXPECT_THAT(shell("$PLIMSOLL plan --budget 1GiB" + here),
              testing::ContainsRegex(" tokens/s \\(by rates measured here on "
                                     "[0-9]{4}-[0-9]{2}-[0-9]{2}\\)\nchosen: "));
  const std::vector<std::string> names = folder_.Names("cache/plimsoll");
  ASSERT_EQ(names.size(), 1u);
  const std::string file = folder_ / ("cache/plimsoll/" + names[0]);
  json slow = json::parse(ReadFile(file));
  slow["first"] = slow["last"] = "2020-01-31";
  for (json& point : slow["points"]) point["seconds"] = 1000;
  WriteFile(file, slow.dump());
  const std::string train = "$PLIMSOLL train" + here + "run.overwrite=true ";
  EXPECT_THAT(
      shell(train + "memory.budget=1GiB checkpointing.policy=auto"),
      testing::ContainsRegex("\nrates   .* ms a step were predicted, by rates measured here "
                             "on 2020-01-31: .*delete .*/cache/plimsoll/calibration-"));
  EXPECT_THAT(shell(train + "memory.budget=1GiB"), Not(HasSubstr("\nrates ")));
  EXPECT_THAT(shell(train + "memory.budget=1GiB checkpointing.policy=auto memory.calibration=" +
                    folder_ / "cache/plimsoll"),
              Not(HasSubstr("\nrates ")));
}

TEST_F(BudgetCommand, PlanShowsTheCandidatesAndTheChosenOne) {
  const auto [least, most] = Range();
  const int64_t budget = (least + most) / 2;
  const json plan = PlanJson({"--budget", std::to_string(budget)});
  EXPECT_LE(plan["arena_bytes"].get<int64_t>(), budget);
  EXPECT_EQ(plan["budget_bytes"], budget);
  int chosen = 0;
  bool selective = false, block = false;
  for (const json& row : plan["candidates"]) {
    selective = selective || row["policy"] == "selective";
    block = block || row["policy"] == "block";
    EXPECT_EQ(row["fits"].get<bool>(), row["arena_bytes"].get<int64_t>() <= budget);
    if (!row["chosen"].get<bool>()) continue;
    ++chosen;
    EXPECT_EQ(row["arena_bytes"], plan["arena_bytes"]);
    EXPECT_EQ(row["predicted_step_ms"], plan["predicted_step_ms"]);
    EXPECT_GT(row["recompute_share"].get<double>(), 0);
    // All other plans that fit are slower.
    for (const json& other : plan["candidates"]) {
      if (other["fits"].get<bool>()) {
        EXPECT_GE(other["predicted_step_ms"], row["predicted_step_ms"]);
      }
    }
  }
  EXPECT_EQ(chosen, 1);
  EXPECT_TRUE(selective && block);
  const Outcome text = Plan({"--budget", std::to_string(budget)});
  ExpectText(text.out, {"\n* ", "chosen: the fastest of the plans that fit"});
}

TEST_F(BudgetCommand, SweepPrintsTheFront) {
  const json front = PlanJson({"--sweep", "10"})["front"];
  ASSERT_EQ(front.size(), 10u);
  for (size_t i = 0; i < front.size(); ++i) {
    EXPECT_LE(front[i]["arena_bytes"], front[i]["budget_bytes"]);
    if (i == 0) continue;
    EXPECT_LT(front[i]["budget_bytes"], front[i - 1]["budget_bytes"]);
    EXPECT_GE(front[i]["predicted_step_ms"], front[i - 1]["predicted_step_ms"]);
  }
}

TEST_F(BudgetCommand, LargestValueThatFits) {
  const int64_t budget = Range().first;
  for (const std::string key : {"train.micro_batch", "model.sequence", "model.layers"}) {
    const json answer = PlanJson({"--budget", std::to_string(2 * budget), "--max", key});
    const int64_t largest = answer["largest"];
    EXPECT_GT(largest, 1) << key;
    EXPECT_LE(answer["arena_bytes"].get<int64_t>(), 2 * budget);
    const auto with = [&](int64_t value) {
      return Plan(
          {"--budget", std::to_string(2 * budget), "--set", key + "=" + std::to_string(value)});
    };
    EXPECT_EQ(with(largest).exit_code, 0) << key;
    EXPECT_EQ(with(largest + 1).exit_code, 3) << key;
  }
}

// Without a budget a GPU's memory is the line, as in a file to start from.
TEST_F(BudgetCommand, LargestValueThatFitsAGpu) {
  const json gpu = PlanJson({"--device", "4090", "--max", "model.layers"});
  const int64_t budget = gpu["budget_bytes"];
  EXPECT_NEAR(static_cast<double>(budget), 0.9 * 24564 * (1 << 20), 1 << 21);
  EXPECT_EQ(gpu, PlanJson({"--device", "4090", "--max", "model.layers", "--budget",
                           std::to_string(budget)}));
  EXPECT_EQ(gpu, PlanJson({"--set", "memory.device=4090", "--max", "model.layers"}));
  EXPECT_THAT(Plan({"--device", "4090", "--max", "model.layers"}).out,
              HasSubstr("fits in 21.6 GiB, 90 % of NVIDIA GeForce RTX 4090 (arena "));
}

TEST_F(BudgetCommand, LargestIsBoundedByTheModel) {
  std::string yaml = kBudgetRun;
  yaml.replace(yaml.find("sequence: 32"), 12, "sequence: 32, max_sequence: 40");
  const json answer = PlanJson({"--budget", "1GiB", "--max", "model.sequence"}, yaml);
  EXPECT_EQ(answer["largest"], 40);
  EXPECT_EQ(answer["limited_by_budget"], false);
}

// A value that is promised is one with which the run fits, with all that follows from it.
TEST_F(BudgetCommand, LargestCountsWhatFollowsFromIt) {
  const std::string bert =
      "model: {family: bert, task: pretraining, layers: 1, width: 64, heads: 2, vocab: 96,\n"
      "        sequence: 16}\n"
      "data: {source: masked_text, synthetic: true, pairs: true}\n"
      "train: {steps: 2, micro_batch: 1, threads: 1, eval_every: 0}\n"
      "memory: {calibrate: false}\n";
  const int64_t budget = PlanJson({}, bert)["arena_bytes"].get<int64_t>() * 3 / 2;
  const json answer =
      PlanJson({"--budget", std::to_string(budget), "--max", "model.sequence"}, bert);
  const auto with = [&](int64_t value) {
    return Plan(
        {"--budget", std::to_string(budget), "--set", "model.sequence=" + std::to_string(value)},
        bert);
  };
  EXPECT_LT(answer["largest"], 512);  // positions that the model has at least
  ExpectExit(0, with(answer["largest"]));
  ExpectExit(3, with(answer["largest"].get<int64_t>() + 1));
  const std::string resnet =
      "model: {family: resnet, depth: 8, image_size: 32, classes: 10}\n"
      "data: {source: synthetic_images}\n"
      "train: {steps: 2, micro_batch: 2, eval_every: 0}\n";
  for (const char* key : {"model.layers", "model.sequence"}) {
    ExpectError(Plan({"--budget", "1GiB", "--max", key}, resnet), 2,
                {key, "models of family resnet have no such key\n"});
  }
}

// The size beside a change is that of the plan which is then the smallest.
TEST_F(BudgetCommand, ChangesAreSaidWithTheSizeThatTheyLeadTo) {
  const std::string run = folder_.Write("run.yaml", kBudgetRun);
  static const std::regex kClosest(R"(the closest: ([a-z_.]+): (\w+), ([0-9.]+ [KMG]iB)\))");
  const Outcome refused = Plan({"--budget", "400KiB"});
  std::smatch closest;
  ASSERT_TRUE(std::regex_search(refused.err, closest, kClosest)) << refused.err;
  ExpectExit(3, Plan({"--budget", "400KiB", "--set", closest[1].str() + "=" + closest[2].str()}),
             {"the smallest plan needs " + closest[3].str()});
}

TEST_F(BudgetCommand, TooSmallABudgetNamesTheSmallestAndTheWayOut) {
  // Activations take most of the memory, so a smaller micro-batch helps.
  const std::string large = "train.micro_batch=64";
  const json front = PlanJson({"--set", large, "--sweep", "2"})["front"];
  const int64_t least = front.back()["arena_bytes"];
  ExpectError(Plan({"--set", large, "--budget", std::to_string(least - 1)}), 3,
              {"--budget: memory.budget: ", std::to_string(least) + " bytes", "the smallest plan",
               "the largest part: ", "it would fit with ",
               "train.micro_batch: 32 with train.accumulate: 2"});
  ExpectExit(0, Plan({"--set", large, "--budget", std::to_string(least)}));
  ExpectError(Plan({"--budget", "64KiB"}), 3, {"less than the parameters alone"});
}

// The gradient of a scaled loss begins with carried state; it still counts as a gradient.
TEST_F(BudgetCommand, ScaledLossBesideFrozenParameters) {
  for (const char* accumulate : {"1", "2"}) {
    const std::vector<std::string> run = {
        "--set", "train.freeze=embed*", "--set", "checkpointing.policy=auto",
        "--set", "amp.dtype=fp16",      "--set", std::string("train.accumulate=") + accumulate};
    const auto with = [&](const std::string& budget) {
      std::vector<std::string> arguments = run;
      arguments.insert(arguments.end(), {"--budget", budget});
      return Plan(arguments);
    };
    EXPECT_EQ(with("20MiB").exit_code, 0) << with("20MiB").err;
    // More than the parameters alone, so that it searches for advice.
    ExpectError(with("120KiB"), 3, {"the smallest plan needs "});
  }
}

// For any split of the model, the table of plans and the chosen plan in full fit a screen.
TEST_F(BudgetCommand, PlansFitAScreen) {
  const std::string split =
      "model: {family: llama, layers: 8, width: 64, heads: 4, vocab: 128, sequence: 32}\n"
      "data: {synthetic: true}\n"
      "train: {steps: 2, micro_batch: 2, accumulate: 2, eval_every: 0}\n"
      "parallel: {data: 4, tensor: 2, sequence: true, zero: 3}\n"
      "memory: {calibrate: false}\n";
  const json front = PlanJson({"--sweep", "4"}, split)["front"];
  for (const json& row : front) {
    const std::string budget = std::to_string(row["budget_bytes"].get<int64_t>());
    const Outcome outcome = ExpectExit(0, Plan({"--budget", budget}, split));
    std::istringstream plans(outcome.out.substr(outcome.out.find("\nPlans (") + 1));
    int lines = 0;
    for (std::string line; std::getline(plans, line); ++lines) {
      EXPECT_LE(Columns(line), 100u) << line;
    }
    EXPECT_LE(lines, 24) << outcome.out;
  }
}

// ZeRO 3 gathers weights again under any policy, unless they must be kept.
TEST_F(BudgetCommand, WholeWeightsAreKeptOnlyWhenAskedFor) {
  for (const char* policy : {"none", "selective", "block", "every"}) {
    SCOPED_TRACE(policy);
    const std::vector<std::string> run = {"--set", std::string("checkpointing.policy=") + policy,
                                          "--set", "checkpointing.every=2"};
    const auto arena = [&](const std::string& reshard) {
      std::vector<std::string> arguments = run;
      for (const std::string set : {"parallel.data=4", "parallel.zero=3", "train.accumulate=2"}) {
        arguments.insert(arguments.end(), {"--set", set});
      }
      arguments.insert(arguments.end(), {"--set", "parallel.reshard_after_forward=" + reshard});
      return PlanJson(arguments)["arena_bytes"].get<int64_t>();
    };
    EXPECT_LT(arena("true"), arena("false"));
    // The key has no effect on meshes without such weights.
    for (const char* reshard : {"true", "false"}) {
      std::vector<std::string> arguments = run;
      arguments.insert(
          arguments.end(),
          {"--set", std::string("parallel.reshard_after_forward=") + reshard, "--ranks", "4"});
      const json meshes = PlanJson(arguments)["meshes"];
      for (size_t i = 0; i + 1 < meshes.size(); ++i) {
        EXPECT_FALSE(meshes[i].contains("problem")) << meshes[i];
      }
    }
  }
  ExpectError(Plan({"--set", "checkpointing.policy=selective", "--set",
                    "checkpointing.recompute=[norms, parameters]"}),
              2, {"--set: checkpointing.recompute: ", "parallel.reshard_after_forward"});
}

TEST_F(BudgetCommand, AFixedPolicyIsChecked) {
  const json none = PlanJson({"--set", "checkpointing.policy=none"});
  const int64_t arena = none["arena_bytes"];
  const std::string fixed = "checkpointing.policy=none";
  ExpectExit(0, Plan({"--set", fixed, "--budget", std::to_string(arena)}));
  ExpectError(Plan({"--set", fixed, "--budget", std::to_string(arena - 1)}), 3,
              {"the plan needs", "checkpointing.policy: auto"});
}

TEST_F(BudgetCommand, TheFirstZeroStageThatFitsIsAWayOut) {
  const auto arena = [&](int zero) {
    return PlanJson({"--set", "checkpointing.policy=block", "--set", "parallel.data=4", "--set",
                     "parallel.zero=" + std::to_string(zero)})["arena_bytes"]
        .get<int64_t>();
  };
  ASSERT_LT(arena(1), arena(0));
  const Outcome outcome =
      Plan({"--set", "checkpointing.policy=block", "--set", "parallel.data=4", "--set",
            "train.micro_batch=4", "--budget", std::to_string(arena(1))});
  ExpectError(outcome, 3, {"it would fit with ", "parallel.zero: 1 ("});
  EXPECT_THAT(outcome.err, Not(HasSubstr("parallel.zero: 2")));
}

TEST_F(BudgetCommand, TrainingKeepsToTheBudget) {
  const auto [least, most] = Range();
  const std::string budget = std::to_string((least + most) / 2);
  const std::string run = folder_ / "run";
  const std::vector<std::string> train = {
      "train", folder_ / "run.yaml",        "--set", "run.dir=" + run,
      "--set", "checkpointing.policy=auto", "--set", "debug.check_arena=true",
      "--set"};
  std::vector<std::string> arguments = train;
  arguments.push_back("memory.budget=" + budget);
  const Outcome outcome = ExpectExit(0, RunPlimsoll(arguments));
  EXPECT_THAT(outcome.out, HasSubstr("chosen within memory.budget: "));
  const json plan = json::parse(ReadFile(run + "/plan.json"));
  const json shown = PlanJson({"--budget", budget});
  EXPECT_EQ(plan["arena_bytes"], shown["arena_bytes"]);
  const double predicted = shown["predicted_step_ms"];
  EXPECT_NEAR(plan["predicted_step_ms"].get<double>(), predicted, 1e-9 * predicted);
  const std::string arena = std::to_string(plan["arena_bytes"].get<int64_t>());
  EXPECT_THAT(outcome.out, HasSubstr(arena + " bytes planned, " + arena + " bytes used"));

  std::filesystem::remove_all(run);
  arguments.back() = "memory.budget=" + std::to_string(least - 1);
  ExpectError(RunPlimsoll(arguments), 3, {"--set: memory.budget: "});
  EXPECT_FALSE(std::filesystem::exists(run + "/metrics.jsonl"));
}

TEST_F(BudgetCommand, Mistakes) {
  ExpectError(Plan({"--set", "checkpointing.policy=auto"}), 2,
              {"checkpointing.policy: auto", "memory.budget, which is not set"});
  ExpectError(Plan({"--max", "train.micro_batch"}), 2, {"--budget"});
  ExpectError(Plan({"--budget", "1GiB", "--max", "model.width"}), 2, {"model.layers"});
  ExpectError(Plan({"--sweep", "3", "--max", "model.layers"}), 2, {"--sweep and --max"});
  ExpectError(Plan({"--sweep", "3", "--budget", "1GiB"}), 2, {"leave out --budget"});
  ExpectError(Plan({"--ranks", "4", "--sweep", "3"}), 2, {"give no other question"});
  ExpectError(Plan({"--budget", "lots"}), 2, {"memory.budget"});
  ExpectError(Plan({"--device", "h2000"}), 2, {"did you mean h200?", "there are cpu, t4"});
  ExpectError(Plan({"--device", "v100"}), 2, {"no build has code for it", "there are cpu, t4"});
  ExpectError(Plan({"--budget", "1GiB", "--set", "train.micro_batch=auto"}), 2,
              {"train.micro_batch", "train.global_batch"});
  ExpectError(Plan({"--budget", "1GiB", "--set", "train.micro_batch=auto", "--set",
                    "train.global_batch=8", "--set", "train.accumulate=2"}),
              2, {"train.accumulate", "remove it"});
  ExpectError(Plan({"--device", "h200", "--sweep", "3", "--set", "optimizer.place=host", "--set",
                    "memory.host_budget=1KiB"}),
              3, {"--set: memory.host_budget: 1.00 KiB", "the smallest plan needs"});
  ExpectError(Plan({"--budget", "free - 1000000GiB"}), 3, {"subtract less"});
}

// Batches that wait for a GPU count as the host's memory: of each place the images and the labels.
TEST_F(BudgetCommand, BatchesThatWaitForAGpuAreOfTheHostsBudget) {
  const std::string resnet =
      "model: {family: resnet, depth: 8, image_size: 64, classes: 10}\n"
      "data: {source: synthetic_images, workers: 4}\n"
      "train: {steps: 2, micro_batch: 64, eval_every: 0}\n";
  const std::vector<std::string> gpu = {"--device", "h200"};
  const int64_t batch = int64_t{64} * 64 * 64 * 3 * 4 + 64 * 4;
  const int64_t bytes = PlanJson(gpu, resnet)["host_input_bytes"];
  EXPECT_EQ(bytes, 5 * batch + (int64_t{8} << 20));  // four places, the slots, chunks of uploads
  const auto with = [&](const std::string& set) {
    return std::vector<std::string>{"--device", "h200", "--set", set};
  };
  EXPECT_EQ(PlanJson(with("data.workers=0"), resnet)["host_input_bytes"], 0);
  EXPECT_EQ(PlanJson({}, resnet)["host_input_bytes"], 0);
  EXPECT_THAT(Unwrapped(Plan(gpu, resnet).out), HasSubstr(" of the host for batches"));
  ExpectExit(0, Plan(with("memory.host_budget=" + std::to_string(bytes)), resnet));
  const Outcome refused = Plan(with("memory.host_budget=" + std::to_string(bytes - 1)), resnet);
  ExpectError(refused, 3, {"--set: memory.host_budget: ", "data.workers: 0 leaves out"});
  ExpectExit(
      0, Plan({"--device", "h200", "--set", "memory.host_budget=1KiB", "--set", "data.workers=0"},
              resnet));
}

TEST_F(BudgetCommand, MicroBatchKeepsTheGlobalBatch) {
  const std::vector<std::string> sets = {"--set", "train.micro_batch=auto", "--set",
                                         "train.global_batch=64"};
  const auto plan_with = [&](const std::string& option, const std::string& value) {
    std::vector<std::string> arguments = sets;
    arguments.insert(arguments.end(), {option, value});
    return PlanJson(arguments);
  };
  const json front = plan_with("--sweep", "2")["front"];
  const json roomy = plan_with("--budget", "1GiB");
  const json tight =
      plan_with("--budget", std::to_string(front.back()["arena_bytes"].get<int64_t>()));
  for (const json& plan : {roomy, tight}) {
    EXPECT_EQ(plan["micro_batch"].get<int>() * plan["accumulate"].get<int>(), 64);
  }
  EXPECT_LT(tight["micro_batch"].get<int>(), roomy["micro_batch"].get<int>());
  EXPECT_LT(tight["arena_bytes"].get<int64_t>(), roomy["arena_bytes"].get<int64_t>());
}

}  // namespace
}  // namespace plimsoll
