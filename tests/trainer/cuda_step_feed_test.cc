// Batches that a GPU copies from places in pinned memory: the losses of runs without workers, to
// the bit.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/support/needs_cuda.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/step_feed.h"

namespace plimsoll::trainer {
namespace {

const std::string kResNet =
    "model: {family: resnet, depth: 8, image_size: 32, classes: 5}\n"
    "data: {source: synthetic_images}\n"
    "device: cuda\n"
    "train: {steps: 30, micro_batch: 48, eval_every: 0}\n";
const std::string kDcgan =
    "model: {family: dcgan, image_size: 32, channels: 3, latent: 100, generator_features: 8, "
    "discriminator_features: 8}\n"
    "data: {source: synthetic_images}\n"
    "device: cuda\n"
    "train: {steps: 30, micro_batch: 64, eval_every: 0}\n";

// The losses of 20 steps, of which the host is one ahead.
std::vector<double> Losses(const std::string& yaml, const std::vector<std::string>& sets,
                           const runtime::ExecutorOptions& executor = {}) {
  const config::RunConfig config = LoadRunText(yaml, "run.yaml", sets).config;
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  ThreadPool pool(2);
  const std::unique_ptr<runtime::Device> device = runtime::MakeCudaDevice(pool);
  Session session(Compile(*model, CompileFrom(config, *model)), *device, executor);
  session.Initialize(*model, 1);
  StepFeed feed(config, *model, MeshPosition());
  const CompiledStep& compiled = session.compiled();
  const bool workers = config.data.settings.Int("workers") > 0;
  EXPECT_EQ(session.input_places() > 0, workers);
  const Divergence divergence(config, JudgedObjectives(compiled), 0, DivergenceState());
  std::vector<double> losses;
  const auto take = [&] {
    for (const StepMetrics& metrics : session.TakeMetrics()) losses.push_back(metrics.loss);
  };
  constexpr int64_t kSteps = 20;
  double copied = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    session.BeginStep(feed.Objectives(step, compiled, divergence), 1);
    for (int64_t run = 0; run < compiled.step.runs(); ++run) {
      feed.Fill(step, compiled.step.At(run), session);
      session.Run(step, run);
    }
    session.EndStep();
    copied += feed.TakeSeconds(session);
    if (step > 0) take();
    if (step == 9) feed.ContinueAt(10, 12345);
  }
  take();
  EXPECT_GT(copied, 0);
  feed.Stop();
  return losses;
}

TEST(CudaStepFeed, PlacesChangeNoBit) {
  PLIMSOLL_NEEDS_CUDA
  for (const std::string& yaml : {kResNet, kDcgan}) {
    SCOPED_TRACE(yaml);
    const std::vector<double> plain = Losses(yaml, {"data.workers=0"});
    for (const char* workers : {"1", "2", "7"}) {
      EXPECT_EQ(Losses(yaml, {std::string("data.workers=") + workers}), plain) << workers;
    }
  }
  const std::vector<std::string> micro_steps = {"train.accumulate=3", "train.micro_batch=16"};
  for (const char* joined : {"false", "true"}) {
    std::vector<std::string> sets = micro_steps;
    sets.push_back(std::string("train.blocks_first=") + joined);
    sets.push_back("data.workers=0");
    const std::vector<double> plain = Losses(kResNet, sets);
    sets.back() = "data.workers=3";
    EXPECT_EQ(Losses(kResNet, sets), plain) << joined;
    EXPECT_EQ(Losses(kResNet, sets, {.poison = true}), plain) << joined;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
