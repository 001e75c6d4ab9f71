// ResNets: their sizes are those of the paper and of torchvision, and their training does not
// depend on what is kept for the backward pass.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "models/family.h"
#include "tests/support/expect_error.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

using Policy = checkpointing::Options::Policy;

std::unique_ptr<models::Model> ResNet(int64_t depth, int64_t size, int64_t classes) {
  const models::Family& family = *models::FindFamily("resnet");
  Settings settings;
  settings.Set("depth", depth);
  settings.Set("image_size", size);
  settings.Set("classes", classes);
  models::Complete(family, settings);
  return models::MakeModel(family, settings);
}

TEST(ResNet, HasTheSizesOfTorchvision) {
  const std::vector<std::pair<int64_t, int64_t>> sizes = {
      {18, 11'689'512}, {34, 21'797'672}, {50, 25'557'032}, {101, 44'549'160}, {152, 60'192'808}};
  for (const auto& [depth, parameters] : sizes) {
    EXPECT_EQ(ResNet(depth, 224, 1000)->parameter_count(), parameters) << depth;
  }
}

// 4.09 · 10⁹ multiply-adds of an image of 224² pixels.
TEST(ResNet, ComputesWhatItShould) {
  CompileOptions options;
  options.train = false;
  options.evaluate = true;
  const CompiledStep compiled = Compile(*ResNet(50, 224, 1000), options);
  const graph::Program& program = *compiled.programs[compiled.step.evaluations.at(0)];
  double products = 0;
  for (const graph::Node& node : program.nodes()) {
    products += graph::CostOf(program.CallOf(node).get()).products;
  }
  EXPECT_NEAR(products / 2, 4.089e9, 0.001e9);
}

TEST(ResNet, RefusesOtherDepths) {
  EXPECT_NE(MessageOf<SettingError>([] { ResNet(51, 32, 10); }).value_or("").find("51 is no"),
            std::string::npos);
}

struct Result {
  std::vector<double> losses, norms;
  std::vector<std::vector<float>> weights;
  double accuracy = 0;
  int64_t used = 0, arena = 0;
};

// The images of a step depend on its number alone, or, by heart, are the same in all steps.
Result Train(const CompileOptions& options, int steps, bool by_heart = false) {
  const auto model = ResNet(8, 8, 10);
  ThreadPool pool(2);
  const auto device = runtime::MakeCpuDevice(pool);
  Session session(Compile(*model, options), *device, {.check_arena = true});
  session.Initialize(*model, 1);
  Result result;
  for (int step = 0; step < steps; ++step) {
    std::mt19937 random(by_heart ? 0 : step);
    std::normal_distribution<float> normal;
    session.BeginStep(options.micro_batch * options.accumulate, 0.01, 1);
    for (int64_t micro = 0; micro < options.accumulate; ++micro) {
      for (float& pixel : session.slot("images").values<float>()) pixel = normal(random);
      for (int32_t& label : session.slot("labels").values<int32_t>()) {
        label = static_cast<int32_t>(random() % 10);
      }
      session.Run(step, micro);
    }
    result.losses.push_back(session.Metrics().loss);
    result.norms.push_back(session.Metrics().grad_norm);
  }
  const MetricSum accuracy = session.Metrics().declared.at(0);
  result.accuracy = accuracy.sum.at(0) / *accuracy.count;
  for (const models::ParameterInfo& parameter : model->Stored()) {
    result.weights.push_back(session.ReadParameter(parameter.name));
  }
  result.used = session.used_bytes();
  result.arena = session.compiled().plan.arena_bytes;
  return result;
}

CompileOptions OptionsOf(int64_t accumulate = 1) {
  CompileOptions options;
  options.micro_batch = 8;
  options.accumulate = accumulate;
  options.threads = 2;
  return options;
}

TEST(ResNet, LearnsImagesByHeart) {
  for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kBFloat16}) {
    CompileOptions options = OptionsOf();
    options.amp.dtype = dtype;
    const Result result = Train(options, 40, /*by_heart=*/true);
    EXPECT_LT(result.losses.back(), 0.2 * result.losses.front());
    EXPECT_EQ(result.accuracy, 1);
    EXPECT_EQ(result.used, result.arena);
  }
}

TEST(ResNet, HasTheSameBitsUnderAllPolicies) {
  for (const int64_t accumulate : {1, 3}) {
    const Result kept = Train(OptionsOf(accumulate), 3);
    for (const Policy policy : {Policy::kBlock, Policy::kEvery, Policy::kSelective}) {
      SCOPED_TRACE(static_cast<int>(policy));
      CompileOptions options = OptionsOf(accumulate);
      options.checkpointing.policy = policy;
      options.checkpointing.every = 2;
      options.checkpointing.recompute = {{"activations"}, "checkpointing.recompute"};
      const Result again = Train(options, 3);
      EXPECT_EQ(again.losses, kept.losses);
      EXPECT_EQ(again.norms, kept.norms);
      EXPECT_EQ(again.weights, kept.weights);  // running statistics among them
      EXPECT_EQ(again.used, again.arena);
      EXPECT_LT(again.arena, kept.arena);
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
