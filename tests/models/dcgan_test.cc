// DCGAN: ten steps agree with PyTorch's example, the generator makes its images once a step, and
// neither what is kept nor the number of programs changes a bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/png.h"
#include "tests/models/formula_weights.h"
#include "tests/models/model_of.h"
#include "tests/models/pytorch_trajectory.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "trainer/record/sample_grid.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

using Policy = checkpointing::Options::Policy;

std::unique_ptr<models::Model> Dcgan(int64_t size, int64_t updates = 1, int64_t channels = 2) {
  return models::ModelOf("dcgan", {{"image_size", size},
                                   {"channels", channels},
                                   {"latent", int64_t{5}},
                                   {"generator_features", int64_t{4}},
                                   {"discriminator_features", int64_t{4}},
                                   {"discriminator_updates", updates}});
}

CompileOptions Options(int64_t batch) {
  CompileOptions options;
  options.micro_batch = batch;
  options.threads = 2;
  options.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  options.update.momentum = 0.9;
  options.update.weight_decay = 0;
  options.update.clip_grad_norm = 0;
  return options;
}

// Images and noise follow from the draw's number; in evaluations all rows count.
void Fill(Session& session, int64_t draw) {
  for (const graph::Slot& slot : session.slots()) {
    if (slot.name == "labels") {
      std::ranges::fill(slot.values<int32_t>(), 0);
      continue;
    }
    const std::vector<double> values =
        models::UniformByName(slot.name + "." + std::to_string(draw), slot.type.shape.elements());
    std::ranges::copy(values, slot.values<float>().begin());
  }
}

struct Left {
  std::vector<double> losses, norms;
  std::vector<int64_t> skipped;
  std::vector<std::vector<float>> weights;
};

void ExpectSame(const Left& actual, const Left& expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.norms, expected.norms);
  EXPECT_EQ(actual.skipped, expected.skipped);
  EXPECT_EQ(actual.weights, expected.weights);
}

void RunSteps(Session& session, int64_t from, int64_t to, Left& left, double lr = 0.01) {
  const StepPrograms& programs = session.compiled().step;
  for (int64_t step = from; step < to; ++step) {
    std::vector<ObjectiveStep> told;
    for (const models::Objective& objective : session.compiled().objectives) {
      told.push_back({.targets = std::vector<int64_t>(objective.updates, 1), .lr = lr});
    }
    session.BeginStep(told, 1);
    for (int64_t run = 0; run < programs.runs(); ++run) {
      Fill(session, step * programs.draws + programs.At(run).draw);
      session.Run(step, run);
    }
    for (size_t i = 0; i < told.size(); ++i) {
      const StepMetrics metrics = session.Metrics(i);
      left.losses.push_back(metrics.loss);
      // Of a step that is skipped it is no number.
      left.norms.push_back(std::isnan(metrics.grad_norm) ? -1 : metrics.grad_norm);
      left.skipped.push_back(metrics.skipped);
    }
  }
}

Left Train(const models::Model& model, const CompileOptions& options, int64_t steps) {
  ThreadPool pool(2);
  const auto device = runtime::MakeCpuDevice(pool);
  Session session(Compile(model, options), *device, {.poison = true, .check_arena = true});
  session.Initialize(model, 1);
  Left left;
  RunSteps(session, 0, steps, left);
  for (const models::ParameterInfo& parameter : model.Stored()) {
    left.weights.push_back(session.ReadParameter(parameter.name));
  }
  EXPECT_EQ(session.used_bytes(), session.compiled().plan.arena_bytes);
  return left;
}

class DcganTrajectory : public testing::TestWithParam<const char*> {};

TEST_P(DcganTrajectory, AgreesWithPyTorch) {
  const Trajectory c(GetParam());
  const TempFolder start;
  c.Write(start);
  Settings settings = c.OwnSettings();
  const auto model = models::ModelFromHuggingFace(start.path(), settings);
  ThreadPool pool(2);
  Session session(Compile(*model, Options(c.json.RequireInt("batch"))), pool);
  session.LoadWeights(*model, start.path());
  Left left;
  const int64_t steps = c.json.RequireInt("steps");
  RunSteps(session, 0, steps, left, c.json.RequireFloat("lr"));
  size_t objective = 0;
  for (const std::string name : {"discriminator", "generator"}) {
    const std::vector<double> losses = c.Numbers(name + "_losses"),
                              norms = c.Numbers(name + "_norms");
    for (int64_t step = 0; step < steps; ++step) {
      const double tolerance = 1e-5 * static_cast<double>(1 + step);
      const size_t i = 2 * static_cast<size_t>(step) + objective;
      EXPECT_NEAR(left.losses[i], losses[step], tolerance * losses[step]) << name << " " << step;
      EXPECT_NEAR(left.norms[i], norms[step], 3 * tolerance * norms[step]) << name << " " << step;
    }
    ++objective;
  }
  ExpectMoved(c, session, *model);
}

// The second with spectral norms, whose vectors move three times a step.
INSTANTIATE_TEST_SUITE_P(Norms, DcganTrajectory, testing::Values("dcgan", "dcgan-spectral"));

// 3,576,704 and 2,765,568 parameters: PyTorch's example with 64 features, 100 numbers of noise and
// three channels.
TEST(Dcgan, HasTheSizesOfPyTorch) {
  EXPECT_EQ(models::ModelOf("dcgan", {{"image_size", int64_t{64}}})->parameter_count(),
            3'576'704 + 2'765'568);
  ExpectMessage(MessageOf<SettingError>([] { Dcgan(24); }), {"doubles 4 × 4 pixels"});
}

// The images of one forward pass serve both updates.
TEST(Dcgan, MakesImagesOnceAStep) {
  const auto made = [](const CompiledStep& compiled) {
    int64_t nodes = 0;
    for (const auto& program : compiled.programs) {
      for (const graph::Node& node : program->nodes()) {
        nodes += node.phase == graph::Phase::kForward && node.op->name == "conv_transpose";
      }
    }
    return nodes;
  };
  CompileOptions options = Options(4);
  for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kFloat16}) {
    options.amp.dtype = dtype;
    if (dtype == graph::DType::kFloat16) options.update.loss_scale.emplace();
    options.join_updates = true;
    EXPECT_EQ(made(Compile(*Dcgan(16), options)), 3);
    options.join_updates = false;
    EXPECT_EQ(made(Compile(*Dcgan(16), options)), 6);
  }
}

TEST(Dcgan, HasTheSameBitsUnderAllPoliciesAndInOneProgram) {
  for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kFloat16}) {
    for (const int64_t updates : {1, 2}) {
      SCOPED_TRACE(testing::Message() << graph::Name(dtype) << ", " << updates);
      const auto model = Dcgan(16, updates);
      CompileOptions options = Options(4);
      options.amp.dtype = dtype;
      if (dtype == graph::DType::kFloat16) options.update.loss_scale.emplace();
      const Left kept = Train(*model, options, 3);
      for (const Policy policy : {Policy::kNone, Policy::kBlock, Policy::kSelective}) {
        for (const bool join : {true, false}) {
          options.checkpointing.policy = policy;
          options.checkpointing.recompute = {{"norms", "activations"}, "", /*by_default=*/true};
          options.join_updates = join;
          ExpectSame(Train(*model, options, 3), kept);
        }
      }
      options.checkpointing = {};
      options.checkpointing.offload.patterns = {"*"};
      ExpectSame(Train(*model, options, 3), kept);
    }
  }
}

// Each of them has a loss scale of its own, and skips a step by itself.
TEST(Dcgan, SkipsStepsByItself) {
  const auto model = Dcgan(16);
  CompileOptions options = Options(4);
  options.amp.dtype = graph::DType::kFloat16;
  options.update.loss_scale.emplace().growth_interval = 1;  // the next one overflows
  const Left left = Train(*model, options, 12);
  bool apart = false;
  for (size_t i = 0; i < left.skipped.size(); i += 2) {
    apart = apart || left.skipped[i] != left.skipped[i + 1];
  }
  EXPECT_GT(left.skipped.back(), 0);
  EXPECT_TRUE(apart);
}

TEST(Dcgan, GoesOnFromItsState) {
  const auto model = Dcgan(16);
  CompileOptions options = Options(4);
  options.amp.dtype = graph::DType::kFloat16;
  options.update.loss_scale.emplace().growth_interval = 1;
  ThreadPool pool(2);
  Session session(Compile(*model, options), pool), other(Compile(*model, options), pool);
  session.Initialize(*model, 1);
  Left before, whole, resumed;
  RunSteps(session, 0, 5, before);
  for (const StateTensor& tensor : session.State()) {
    std::vector<std::byte> bytes(
        static_cast<size_t>(tensor.elements * graph::ByteSize(tensor.dtype)));
    session.ReadState(tensor, 0, bytes);
    other.WriteState(tensor, 0, bytes);
  }
  RunSteps(session, 5, 9, whole);
  RunSteps(other, 5, 9, resumed);
  ExpectSame(resumed, whole);
}

// Six images of 8 × 8 in three columns and two rows, two pixels apart.
TEST(Dcgan, ShowsTheImagesOfAnEvaluation) {
  for (const int64_t channels : {1, 3}) {
    const auto model = Dcgan(8, 1, channels);
    CompileOptions options = Options(3);
    options.evaluate = true;
    ThreadPool pool(2);
    Session session(Compile(*model, options), pool);
    session.Initialize(*model, 1);
    SampleGrid grid;
    EXPECT_TRUE(grid.Png().empty());
    std::vector<float> made;
    for (const int64_t batch : {0, 1}) {
      Fill(session, batch);
      session.Evaluate(std::vector<int64_t>{1, 1}, 1);
      grid.Add(session, 3 * batch, 6);
      std::ranges::copy(session.Read<float>(kMadeImages), std::back_inserter(made));
    }
    std::vector<uint8_t> pixels(static_cast<size_t>(28 * 18 * channels), 255);
    for (int64_t i = 0; i < std::ssize(made); ++i) {
      const int64_t channel = i % channels, x = i / channels % 8, y = i / channels / 8 % 8;
      const int64_t image = i / channels / 64;
      const int64_t at = ((image / 3 * 10 + y) * 28 + image % 3 * 10 + x) * channels + channel;
      pixels[static_cast<size_t>(at)] =
          static_cast<uint8_t>(std::lround(255 * (made[static_cast<size_t>(i)] + 1) / 2));
    }
    EXPECT_EQ(grid.Png(), formats::EncodePng(28, 18, pixels));
  }
}

TEST(Dcgan, MakesImagesAgainWithAccumulation) {
  const auto model = Dcgan(16);
  CompileOptions options = Options(4);
  options.accumulate = 2;
  EXPECT_EQ(Compile(*model, options).programs.size(), 4u);
}

}  // namespace
}  // namespace plimsoll::trainer
