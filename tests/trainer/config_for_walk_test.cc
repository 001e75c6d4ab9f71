// plimsoll config --for, of each shipped model on five devices: what it writes plans within its
// budget, and a small copy of it trains on a CPU. Full training and adapters take turns from device
// to device and from model to model; PLIMSOLL_WALK=all in the environment tries both everywhere.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"
#include "trainer/config/shipped.h"
#include "trainer/propose/config_for.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/step_solver.h"

namespace plimsoll::trainer {
namespace {

using config::RunConfig;
using testing::HasSubstr;

constexpr const char* kDevices[] = {"cpu", "t4", "4090", "a100", "h200"};
constexpr int64_t kRank = 16;

bool HasAdapters(const RunConfig& config) {
  return config.model.family != "resnet" && config.model.family != "unet" &&
         config.model.family != "dcgan";
}

// A model of the family for which a step takes milliseconds.
std::vector<std::string> SmallSets(const RunConfig& model) {
  std::vector<std::string> sets;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, int64_t>>{{"layers", 1},
                                                    {"width", 32},
                                                    {"heads", 2},
                                                    {"kv_heads", 1},
                                                    {"head_width", 16},
                                                    {"rotary_width", 8},
                                                    {"ffn_width", 64},
                                                    {"vocab", 64},
                                                    {"sequence", 16},
                                                    {"max_sequence", 16},
                                                    {"patch", 8},
                                                    {"depth", 20},
                                                    {"image_size", 32},
                                                    {"classes", 3},
                                                    {"image_depth", 16},
                                                    {"image_height", 16},
                                                    {"image_width", 16}}) {
    const std::string key = "model." + name;
    if (model.IsSet(key)) sets.push_back(fmt::format("{}={}", key, value));
  }
  if (model.model.family == "unet") {
    sets.insert(sets.end(), {"model.levels=2", "model.features=4"});
  }
  if (model.model.family == "dcgan") {
    sets.insert(sets.end(), {"model.generator_features=4", "model.discriminator_features=4"});
  }
  const bool coupled = ModelFrom(model)->sample_coupling().whole_micro_batch();
  sets.emplace_back(coupled ? "train.micro_batch=4" : "train.global_batch=4");
  sets.emplace_back("train.steps=2");
  return sets;
}

// Whether a quick search, or else the full one, finds a plan within the budget.
bool Fits(const RunConfig& config) {
  const memory::Budget budget = BudgetOf(config);
  for (const bool coarse : {true, false}) {
    StepSolver solver(config, {.built_in_rates = true, .coarse = coarse});
    if (solver.solver().Fastest(budget) != nullptr) return true;
  }
  return false;
}

struct Stop {
  std::string model;
  const char* device;
  int64_t rank;  // of adapters; 0: none
};

std::vector<Stop> Stops() {
  const char* const asked = std::getenv("PLIMSOLL_WALK");
  const bool all = asked != nullptr && std::string_view(asked) == "all";
  std::vector<Stop> stops;
  size_t models = 0;
  for (const std::string& model : config::ShippedNames("configs/models")) {
    size_t turn = models++;
    for (const char* device : kDevices) {
      const bool adapters = turn++ % 2 == 0;
      if (all || !adapters) stops.push_back({model, device, 0});
      if (all || adapters) stops.push_back({model, device, kRank});
    }
  }
  return stops;
}

class Walk : public testing::TestWithParam<Stop> {};

TEST_P(Walk, PlansAndTrains) {
  const auto& [name, device, rank] = GetParam();
  ConfigForCommand command = {.model = name, .device = device, .budget = "", .lora_rank = rank};
  const RunConfig model = LoadRun(FindModelFile(name), {}).config;
  if (rank > 0 && !HasAdapters(model)) {
    EXPECT_THROW(ConfigFor(command, {}), UserError);
    command.lora_rank = 0;
  }
  // The blocks of a model are alike, and 96 of GPT-3's take the solver most of a minute.
  if (name == "gpt3-175b" && device != std::string("h200")) command.sets = {"model.layers=24"};
  try {
    RunConfig config = LoadRunText(ConfigFor(command, {}), "written").config;
    config.planned_gpu = config.memory.device;
    EXPECT_TRUE(Fits(config));
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kBudgetNotMet) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("config --for: memory.budget"));
  }

  command.sets = SmallSets(model);
  const TempFolder folder;
  const std::string file = folder.Write("run.yaml", ConfigFor(command, {}));
  std::vector<std::string> train = {"train", file,
                                    "--set", "device=cpu",
                                    "--set", "memory.budget=1GiB",
                                    "--set", "run.dir=" + folder.path() + "/run"};
  // Two steps are too few to find a loss scale.
  if (device == std::string("t4")) train.insert(train.end(), {"--set", "amp.init_scale=256"});
  if (device != std::string("cpu")) train.insert(train.end(), {"--set", "memory.device=null"});
  const Outcome trained = ExpectExit(0, RunPlimsoll(train));
  EXPECT_THAT(trained.out, HasSubstr("loss"));
}

INSTANTIATE_TEST_SUITE_P(Shipped, Walk, testing::ValuesIn(Stops()), [](const auto& info) {
  std::string name = fmt::format("{}_{}_{}", info.param.model, info.param.device,
                                 info.param.rank > 0 ? "adapters" : "full");
  for (char& c : name) c = std::isalnum(c) ? c : '_';
  return name;
});

}  // namespace
}  // namespace plimsoll::trainer
