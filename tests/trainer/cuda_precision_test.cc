// The effect of low precision on training on a GPU: 200 steps of a small GPT on real text (this
// project's own documentation, byte by byte), in float32, tf32, bf16, fp16 and bf16 with 8-bit
// linear layers from the same weights and batches. Each loss curve stays within a band around
// float32's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/cuda/gpu_memory.h"
#include "tests/support/needs_cuda.h"
#include "tests/support/temp_folder.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/run_device.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

constexpr int kSteps = 200;
constexpr int kSmooth = 10;  // number of losses averaged for a comparison

std::string Documentation() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("docs")) {
    if (entry.path().extension() == ".md") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  std::string text;
  for (const std::string& file : files) {
    std::ifstream stream(file, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(stream), {});
  }
  return text;
}

std::vector<double> Losses(const std::string& text, const std::vector<std::string>& sets) {
  const TempFolder folder;
  const std::string file = folder.path() + "/run.yaml";
  WriteFile(file,
            "device: cuda\n"
            "model: {family: gpt2, layers: 4, width: 256, heads: 4, vocab: 256, sequence: 128}\n"
            "data: {synthetic: true}\n"
            "train: {steps: 200, micro_batch: 32}\n"
            "optimizer: {lr: 1e-3, betas: [0.9, 0.95], weight_decay: 0.1}\n");
  const config::Loaded loaded = LoadRun(file, sets);
  const auto model = ModelFrom(loaded.config);
  ThreadPool pool(2);
  const auto device = MakeDevice(loaded.config, pool);
  Session session(Compile(*model, CompileFrom(loaded.config, *model)), *device);
  session.Initialize(*model, 1);

  std::mt19937 random(1);
  std::vector<double> losses;
  const BatchSlots batch = session.batch();
  const size_t sequence = 128, rows = batch.tokens.size() / sequence;
  for (int step = 0; step < kSteps; ++step) {
    for (size_t row = 0; row < rows; ++row) {
      const size_t at = random() % (text.size() - sequence - 1);
      for (size_t i = 0; i < sequence; ++i) {
        batch.tokens[row * sequence + i] = static_cast<unsigned char>(text[at + i]);
        batch.targets[row * sequence + i] = static_cast<unsigned char>(text[at + i + 1]);
      }
    }
    session.BeginStep(static_cast<int64_t>(batch.tokens.size()), 1e-3 * std::min(1.0, step / 20.0),
                      1);
    session.Run(step, 0);
    losses.push_back(session.Metrics().loss);
  }
  return losses;
}

double Smoothed(const std::vector<double>& losses, size_t end) {
  double sum = 0;
  for (size_t i = end - kSmooth; i < end; ++i) sum += losses[i];
  return sum / kSmooth;
}

struct Band {
  std::string name;
  std::vector<std::string> sets;
  double mean, largest;  // of |loss − float32's|, smoothed, in nats per token
};

class CudaPrecision : public testing::TestWithParam<Band> {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_CUDA }
};

TEST_P(CudaPrecision, LossesStayWithinABandOfFloat32s) {
  if (GetParam().name == "fp8" && !runtime::PresentCapability().multiplies_float8()) {
    GTEST_SKIP() << "no matrix units for 8-bit floats";
  }
  const std::string text = Documentation();
  ASSERT_GT(text.size(), 50000u);
  const std::vector<double> exact = Losses(text, {}), low = Losses(text, GetParam().sets);
  EXPECT_NEAR(exact[0], std::log(256.0), 0.2);
  EXPECT_LT(Smoothed(exact, kSteps), 3.0) << "float32 must have learnt something";
  double sum = 0, largest = 0;
  for (size_t end = kSmooth; end <= kSteps; ++end) {
    const double gap = std::abs(Smoothed(low, end) - Smoothed(exact, end));
    sum += gap;
    largest = std::max(largest, gap);
  }
  const double mean = sum / (kSteps - kSmooth + 1);
  RecordProperty("mean", std::to_string(mean));
  RecordProperty("largest", std::to_string(largest));
  EXPECT_GT(largest, 0) << "the same numbers: this was not " << GetParam().name;
  EXPECT_LT(mean, GetParam().mean);
  EXPECT_LT(largest, GetParam().largest);
  std::printf("%s: mean gap %.5f, largest %.5f, last losses %.4f (fp32 %.4f)\n",
              GetParam().name.c_str(), mean, largest, Smoothed(low, kSteps),
              Smoothed(exact, kSteps));
}

INSTANTIATE_TEST_SUITE_P(Types, CudaPrecision,
                         testing::Values(Band{"tf32", {"amp.dtype=tf32"}, 0.01, 0.04},
                                         Band{"bf16", {"amp.dtype=bf16"}, 0.01, 0.04},
                                         Band{"fp16", {"amp.dtype=fp16"}, 0.01, 0.04},
                                         Band{"fp8",
                                              {"amp.dtype=bf16", "amp.fp8.recipe=current",
                                               "amp.fp8.skip_ends=0"},
                                              0.02,
                                              0.08}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plimsoll::trainer
