// Ten steps of training BERT, ViT, ResNet-50 and U-Nets agree with PyTorch's: the first logits,
// losses, gradient norms and how far each tensor has moved. trajectories/ is made by
// make_trajectories.py, which has the formulas of weights and data.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "models/huggingface.h"
#include "tests/models/formula_weights.h"
#include "tests/models/forward.h"
#include "tests/models/pytorch_trajectory.h"
#include "tests/support/temp_folder.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kVocab = 61, kClasses = 7;

std::vector<int32_t> Integers(const std::string& kind, int64_t step, int64_t count, int64_t below) {
  std::vector<int32_t> values;
  for (const double x : models::UniformByName(kind + "." + std::to_string(step), count)) {
    values.push_back(static_cast<int32_t>((x + 1) / 2 * static_cast<double>(below)));
  }
  return values;
}

// Fills the slots, and returns how many targets count.
int64_t Fill(Session& session, int64_t step, int64_t batch, int64_t sequence) {
  std::vector<int32_t> lengths(batch, static_cast<int32_t>(sequence));
  int64_t targets = batch;
  for (const graph::Slot& slot : session.slots(0)) {
    if (slot.name != "lengths") continue;
    lengths = Integers("lengths", step, batch, sequence);
    for (int32_t& length : lengths) ++length;
  }
  for (const graph::Slot& slot : session.slots(0)) {
    const int64_t count = slot.type.shape.elements();
    if (slot.name == "images") {
      const std::vector<double> pixels =
          models::UniformByName("images." + std::to_string(step), count);
      std::ranges::copy(pixels, slot.values<float>().begin());
      continue;
    }
    std::vector<int32_t> values;
    if (slot.name == "lengths") {
      values = lengths;
    } else if (slot.name == "tokens") {
      values = Integers("tokens", step, count, kVocab - 1);
      for (int32_t& token : values) ++token;
    } else if (slot.name == "targets") {
      values = Integers("targets", step, count, kVocab);
      targets = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t place = i % sequence;
        const bool counts = place % 3 == 0 && place < lengths[i / sequence];
        if (!counts) values[i] = -100;
        targets += counts;
      }
    } else {
      values = Integers(slot.name, step, count, slot.name == "labels" ? kClasses : 2);
    }
    std::ranges::copy(values, slot.values<int32_t>().begin());
  }
  return targets;
}

// Those of the first batch, before training, where the case has them.
void ExpectFirstLogits(const Trajectory& c, const std::string& folder, const models::Batch& batch,
                       Session& session) {
  if (c.file.Find("logits") == nullptr) return;
  Fill(session, 0, batch.batch, batch.sequence);
  models::Inputs inputs;
  for (const graph::Slot& slot : session.slots(0)) {
    if (slot.name == "labels") continue;
    std::vector<double>& values = inputs[slot.name];
    if (slot.type.dtype == graph::DType::kFloat32) {
      std::ranges::copy(slot.values<float>(), std::back_inserter(values));
    } else {
      std::ranges::copy(slot.values<int32_t>(), std::back_inserter(values));
    }
  }
  models::Forward forward(folder, batch, models::Head::kLogits, c.OwnSettings());
  models::ExpectLogits(forward.Run(inputs), c.Numbers("logits"), 1e-5, folder);
}

class TrajectoryTest : public testing::TestWithParam<const char*> {};

TEST_P(TrajectoryTest, AgreesWithPyTorch) {
  const Trajectory c(GetParam());
  const TempFolder start;
  c.Write(start);
  Settings settings = c.OwnSettings();
  const auto model = models::ModelFromHuggingFace(start.path(), settings);
  CompileOptions options;
  options.micro_batch = c.json.RequireInt("batch");
  options.sequence = settings.IntOr("sequence", 1);
  options.threads = 2;
  options.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  options.update.momentum = c.json.RequireFloat("momentum");
  options.update.weight_decay = 0;
  options.update.clip_grad_norm = 0;
  ThreadPool pool(2);
  Session session(Compile(*model, options), pool);
  session.LoadWeights(*model, start.path());
  ExpectFirstLogits(c, start.path(), {options.micro_batch, options.sequence}, session);
  const std::vector<double> losses = c.Numbers("losses");
  const std::vector<double> norms = c.Numbers("norms");
  // Sums of float32 in other orders; the differences grow from step to step.
  for (int64_t step = 0; step < std::ssize(losses); ++step) {
    const int64_t targets = Fill(session, step, options.micro_batch, options.sequence);
    session.BeginStep(targets, c.json.RequireFloat("lr"), 1);
    session.Run(step, 0);
    const double tolerance = 1e-5 * static_cast<double>(1 + step);
    EXPECT_NEAR(session.Metrics().loss, losses[step], tolerance * losses[step]) << "step " << step;
    EXPECT_NEAR(session.Metrics().grad_norm, norms[step], 3 * tolerance * norms[step])
        << "step " << step;
  }
  ExpectMoved(c, session, *model);
}

INSTANTIATE_TEST_SUITE_P(Models, TrajectoryTest,
                         testing::Values("bert-masked", "bert-masked-padded", "bert-pretraining",
                                         "bert-classification", "vit", "resnet50", "unet-2d",
                                         "unet-3d"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace plimsoll::trainer
