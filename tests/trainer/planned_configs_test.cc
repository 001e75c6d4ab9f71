// Every file in configs/ can be planned, without waste.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/glob.h"
#include "tests/trainer/config/config_files.h"
#include "trainer/config/load.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {
namespace {

class ShippedConfig : public testing::TestWithParam<std::string> {};

TEST_P(ShippedConfig, PlansWithoutWaste) {
  for (int64_t accumulate : {1, 3}) {
    std::vector<std::string> sets = {fmt::format("train.accumulate={}", accumulate)};
    if (accumulate == 1) sets.push_back("train.blocks_first=false");  // it would have no effect
    const config::Loaded loaded = config::Load(GetParam(), sets);
    EXPECT_TRUE(loaded.warnings.empty());
    const auto model = ModelFrom(loaded.config);
    CompileOptions options = CompileFrom(loaded.config, *model);
    options.threads = 2;
    // Compile() runs the independent checker on the plan.
    const CompiledStep compiled = Compile(*model, options);
    const memory::MemoryPlan& plan = compiled.plan;
    // What comes and goes in many sizes, of a small model, is harder to place.
    EXPECT_LE(plan.fragmentation, options.on_host.weights ? 0.1 : 0.01);
    EXPECT_GE(plan.arena_bytes, plan.max_live_bytes);
    const int64_t count = model->parameter_count();
    const bool low = options.amp.enabled();
    if (!options.on_host.weights) {
      EXPECT_GE(plan.bytes_of(graph::Role::kParameter), (low ? 2 : 4) * count);
    }
    int64_t trained = 0;
    for (const models::ParameterInfo& parameter : model->parameters()) {
      if (!MatchesAnyGlob(options.frozen, parameter.name)) trained += parameter.shape.elements();
    }
    EXPECT_EQ(trained < count, !options.frozen.empty());
    // AdamW's moments take twice the trained bytes, momentum as much as these, and all gradients
    // persist only where several programs accumulate them.
    if (options.update.state_dtype == optim::StateDType::kFloat32 && !options.on_host.state) {
      const bool adamw = options.update.algorithm == optim::UpdateOptions::Algorithm::kAdamW;
      EXPECT_GE(plan.bytes_of(graph::Role::kOptimizerState), (adamw ? 8 : 4) * trained);
    }
    if (accumulate > options.micro_steps_per_program) {
      EXPECT_GE(plan.bytes_of(graph::Role::kGradient),
                (options.amp.low_gradients ? 2 : 4) * trained);
    }
    EXPECT_GT(compiled.flops_per_step, 0);
  }
}

TEST_P(ShippedConfig, PlanIsDeterministic) {
  const config::Loaded loaded = config::Load(GetParam());
  const auto model = ModelFrom(loaded.config);
  CompileOptions options = CompileFrom(loaded.config, *model);
  options.threads = 2;
  const CompiledStep a = Compile(*model, options), b = Compile(*model, options);
  ASSERT_EQ(a.plan.programs.size(), b.plan.programs.size());
  for (size_t i = 0; i < a.plan.programs.size(); ++i) {
    EXPECT_EQ(a.plan.programs[i].layout.offsets, b.plan.programs[i].layout.offsets);
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, ShippedConfig, testing::ValuesIn(config::PlannableConfigFiles()),
                         [](const auto& info) { return config::TestName(info.param); });

// The update is planned with the backward pass: without accumulation no gradient persists.
TEST(ShippedConfigs, MixedPrecisionKeepsTwelveBytesAParameter) {
  const config::Loaded loaded =
      config::Load("configs/models/gpt2-1558m.yaml", {"amp.dtype=bf16", "train.micro_batch=1"});
  const auto model = ModelFrom(loaded.config);
  const double parameters = static_cast<double>(model->parameter_count());
  CompileOptions options = CompileFrom(loaded.config, *model);
  const double once = static_cast<double>(Compile(*model, options).plan.persistent_bytes);
  EXPECT_NEAR(once / parameters, 12.0, 0.001);
  options.accumulate = 2;
  const double twice = static_cast<double>(Compile(*model, options).plan.persistent_bytes);
  EXPECT_NEAR(twice / parameters, 16.0, 0.001);
}

TEST(ShippedConfigs, AreThere) { EXPECT_GE(config::PlannableConfigFiles().size(), 12u); }

}  // namespace
}  // namespace plimsoll::trainer
