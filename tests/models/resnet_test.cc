// ResNets: their sizes are those of the paper and of torchvision, and their training does not
// depend on what is kept for the backward pass.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "tests/models/image_training.h"
#include "tests/models/model_of.h"
#include "tests/models/trained.h"
#include "tests/support/expect_error.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

using Policy = checkpointing::Options::Policy;

std::unique_ptr<models::Model> ResNet(int64_t depth, int64_t size, int64_t classes) {
  return models::ModelOf("resnet", {{"depth", depth}, {"image_size", size}, {"classes", classes}});
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

TEST(ResNet, IsCalledByItsDepth) {
  EXPECT_EQ(ResNet(20, 32, 10)->title(), "ResNet-20");
  EXPECT_EQ(ResNet(50, 32, 10)->title(), "ResNet-50");
}

TEST(ResNet, RefusesOtherDepths) {
  ExpectMessage(MessageOf<SettingError>([] { ResNet(51, 32, 10); }), {"51 is no"});
}

// The images of a step depend on its number alone, or, by heart, are the same in all steps.
Trained Train(const CompileOptions& options, int steps, bool by_heart = false) {
  std::mt19937 random;
  std::normal_distribution<float> normal;
  return TrainSteps(*ResNet(14, 8, 10), options, steps, 0.01,
                    [&](Session& session, int step, int64_t micro) {
                      if (micro == 0) {
                        random.seed(by_heart ? 0 : step);
                        normal.reset();
                      }
                      for (float& pixel : session.slot("images").values<float>())
                        pixel = normal(random);
                      for (int32_t& label : session.slot("labels").values<int32_t>()) {
                        label = static_cast<int32_t>(random() % 10);
                      }
                    });
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
    const Trained result = Train(options, 40, /*by_heart=*/true);
    EXPECT_LT(result.losses.back(), 0.2 * result.losses.front());
    const MetricSum accuracy = result.last.declared.at(0);
    EXPECT_EQ(accuracy.sum.at(0), *accuracy.count);
    EXPECT_EQ(result.used, result.arena);
  }
}

TEST(ResNet, HasTheSameBitsUnderAllPolicies) {
  for (const int64_t accumulate : {1, 3}) {
    const Trained kept = Train(OptionsOf(accumulate), 3);
    for (const Policy policy : {Policy::kBlock, Policy::kEvery, Policy::kSelective}) {
      SCOPED_TRACE(static_cast<int>(policy));
      CompileOptions options = OptionsOf(accumulate);
      options.checkpointing.policy = policy;
      options.checkpointing.every = 2;
      options.checkpointing.recompute = {{"norms", "activations"}, "", /*by_default=*/true};
      const Trained again = Train(options, 3);
      ExpectSame(again, kept);
      EXPECT_LT(again.arena, kept.arena);
    }
  }
}

// The counts that this form of the network is known by.
TEST(ResNet, OfOptionAHasNoParametersInShortcuts) {
  const std::vector<std::pair<int64_t, int64_t>> sizes = {
      {20, 269'722}, {32, 464'154}, {44, 658'586}, {56, 853'018}};
  for (const std::string form : {"A", "A_centered"}) {
    for (const auto& [depth, parameters] : sizes) {
      const auto model = TinyResNet({{"depth", depth}, {"shortcut", form}});
      EXPECT_EQ(model->parameter_count(), parameters) << depth;
    }
    ExpectMessage(MessageOf<SettingError>([&] {
                    TinyResNet({{"depth", int64_t{18}}, {"shortcut", form}});
                  }),
                  {form + " is there for small images", "with 18 layers use B"});
  }
}

ImageRun RunAlone(const models::Values& settings, CompileOptions options, int steps = 3) {
  const auto model = TinyResNet(settings);
  options.threads = 2;
  ThreadPool pool(2);
  Session session(Compile(*model, options), pool, {.check_arena = true});
  const ImageRun run = RunImages(session, *model, options.micro_batch * options.accumulate, steps);
  EXPECT_EQ(session.used_bytes(), session.compiled().plan.arena_bytes);
  return run;
}

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

void ExpectSameTraining(const ImageRun& got, const ImageRun& want) {
  for (size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]) << i;
  }
  for (const auto& [name, values] : want.weights) {
    if (name == "norm_batches") continue;  // counts micro-batches
    EXPECT_LT(LargestDifference(got.weights.at(name), values), 5e-5) << name;
  }
}

CompileOptions Cut(int64_t micro_batch, int64_t accumulate) {
  CompileOptions options;
  options.micro_batch = micro_batch;
  options.accumulate = accumulate;
  // AdamW makes the rounding of gradients near zero as large as a step.
  options.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  return options;
}

TEST(ResNet, TrainsWithoutProjections) {
  const ImageRun behind = RunAlone({{"shortcut", std::string("A")}}, Cut(8, 1), 2);
  EXPECT_FALSE(behind.weights.contains("stage.1.block.0.shortcut.conv.weight"));
  EXPECT_LT(behind.losses[0], 20);
  // Of the same initial weights, the other form makes another network.
  const ImageRun around = RunAlone({{"shortcut", std::string("A_centered")}}, Cut(8, 1), 2);
  EXPECT_EQ(around.weights.size(), behind.weights.size());
  EXPECT_LT(around.losses[0], 20);
  EXPECT_NE(around.losses[0], behind.losses[0]);
}

// Of groups of a fixed size, accumulation changes nothing but rounding.
TEST(ResNet, WithGroupsOfSamplesDoesNotDependOnTheMicroBatch) {
  const models::Values groups = {{"norm_samples", int64_t{2}}};
  const ImageRun whole = RunAlone(groups, Cut(8, 1));
  for (const int64_t accumulate : {2, 4}) {
    SCOPED_TRACE(accumulate);
    ExpectSameTraining(RunAlone(groups, Cut(8 / accumulate, accumulate)), whole);
  }
  // Programs of several micro-steps do the same.
  CompileOptions together = Cut(2, 4);
  together.micro_steps_per_program = 2;
  ExpectSameTraining(RunAlone(groups, together), whole);
  // One group is the usual batch norm, and several are not.
  const ImageRun usual = RunAlone({}, Cut(8, 1));
  ExpectSameTraining(RunAlone({{"norm_samples", int64_t{8}}}, Cut(8, 1)), usual);
  EXPECT_GT(std::abs(usual.losses[0] - whole.losses[0]), 1e-3);
}

TEST(ResNet, WithGroupsHasTheSameBitsUnderAllPolicies) {
  const models::Values groups = {{"norm_samples", int64_t{2}}};
  const ImageRun kept = RunAlone(groups, Cut(4, 2));
  for (const Policy policy : {Policy::kBlock, Policy::kEvery, Policy::kSelective}) {
    CompileOptions options = Cut(4, 2);
    options.checkpointing.policy = policy;
    options.checkpointing.every = 2;
    options.checkpointing.recompute = {{"norms", "activations"}, "", /*by_default=*/true};
    const ImageRun again = RunAlone(groups, options);
    EXPECT_EQ(again.losses, kept.losses);
    EXPECT_EQ(again.weights, kept.weights);
  }
}

// Once a step, towards the mean of the groups' statistics; without groups, once a micro-step.
TEST(ResNet, CountsItsMicroBatches) {
  EXPECT_EQ(RunAlone({}, Cut(4, 2)).weights.at("norm_batches"), std::vector<float>(9, 6));
}

TEST(ResNet, WithFrozenNormsUsesAndKeepsItsRunningStatistics) {
  const auto model = TinyResNet({{"norms", std::string("frozen")}});
  EXPECT_FALSE(model->sample_coupling().whole_micro_batch());
  EXPECT_EQ(model->sample_coupling().smallest_micro_batch(), 1);
  CompileOptions options = Cut(4, 2);
  options.evaluate = true;
  options.threads = 2;
  ThreadPool pool(2);
  Session session(Compile(*model, options), pool);
  session.Initialize(*model, 1);
  std::map<std::string, std::vector<float>> states;
  float next = 0.1f;
  for (const models::StateInfo& state : model->states()) {
    std::vector<float>& values = states[state.name];
    for (int64_t i = 0; i < state.shape.elements(); ++i) values.push_back(next += 0.01f);
    session.WriteParameter(state.name, values);
  }
  // What training computes is what an evaluation would.
  FillImages(session, 0);
  const int64_t targets = 4;
  const double evaluated = session.Evaluate({&targets, 1}, targets)[0].loss;
  session.BeginStep(8, 0.1, 1);
  for (int64_t micro = 0; micro < 2; ++micro) session.Run(0, micro);
  EXPECT_NEAR(session.Metrics().loss, evaluated, 1e-5 * evaluated);
  for (const auto& [name, values] : states) EXPECT_EQ(session.ReadParameter(name), values) << name;
}

// The last stage of so small an image has one pixel.
TEST(ResNet, RefusesOneValuePerChannel) {
  const auto compile = [](const models::Values& more, int64_t batch) {
    models::Values settings = {{"image_size", int64_t{4}}};
    settings.insert(settings.end(), more.begin(), more.end());
    Compile(*TinyResNet(settings), Cut(batch, 1));
  };
  ExpectUserError([&] { compile({}, 1); },
                  {"stage.2.block.0.norm_1", "one value", "raise train.micro_batch"});
  ExpectUserError(
      [&] {
        compile({{"norm_samples", int64_t{1}}}, 4);
      },
      {"one value", "raise model.norm_samples"});
  compile({}, 2);
  compile({{"norms", std::string("frozen")}}, 1);
}

}  // namespace
}  // namespace plimsoll::trainer
