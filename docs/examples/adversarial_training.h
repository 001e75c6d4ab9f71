// Training of the example of two objectives, for its tests: made-up data, a critic with AdamW, a
// generator with SGD.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "docs/examples/adversarial.h"
#include "runtime/ranks/mesh_ranks.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

using models::Adversarial;
using models::WithParameters;

inline constexpr int64_t kBatch = 16;  // of all ranks

inline Settings Shape(int64_t critic_updates = 1) {
  Settings settings;
  settings.Set("width", int64_t{32});
  settings.Set("critic_updates", critic_updates);
  return settings;
}

inline std::unique_ptr<models::Model> Both(int64_t critic_updates) {
  return WithParameters<models::Model>(std::make_unique<Adversarial>(Shape(critic_updates)));
}

// This rank's rows of a draw of data, which is a function of its number over the whole run. Real
// points lie around (2, -1).
inline void Fill(const Session& session, int64_t draw, int64_t rank = 0, int64_t micro_step = 0) {
  for (const Slot& slot : session.slots(micro_step)) {
    if (slot.type.dtype == graph::DType::kInt32) {
      std::ranges::fill(slot.values<int32_t>(), slot.name == "real_label" ? 1 : 0);
      continue;
    }
    const bool real = slot.name == "real";
    std::mt19937 random(static_cast<uint32_t>(2 * draw + real));
    std::normal_distribution<float> normal(0, real ? 0.3f : 1.0f);
    const std::span<float> values = slot.values<float>();
    for (size_t i = 0; i < values.size() * rank; ++i) normal(random);  // other ranks'
    for (size_t i = 0; i < values.size(); ++i) {
      const float center = !real ? 0.0f : i % 2 == 0 ? 2.0f : -1.0f;
      values[i] = center + normal(random);
    }
  }
}

struct Setting {
  int64_t accumulate = 1;
  int64_t critic_updates = 1;
  int64_t micro_steps_per_program = 1;
  bool join_updates = true;
  graph::DType dtype = graph::DType::kFloat32;
  checkpointing::Options checkpointing = {};
  bool check_arena = false;
  // Among these data ranks the rows of a draw are dealt; nullptr: alone.
  const runtime::MeshRanks* mesh = nullptr;
  int64_t zero = 0;

  int64_t ranks() const { return mesh == nullptr ? 1 : mesh->mesh().size(); }
  int64_t rank() const { return mesh == nullptr ? 0 : mesh->position().rank; }
};

inline optim::UpdateOptions Critic(const Setting& setting) {
  optim::UpdateOptions update;
  update.clip_grad_norm = 0;
  if (setting.dtype == graph::DType::kFloat16) update.loss_scale = ops::LossScaleOptions{};
  return update;
}

inline optim::UpdateOptions Generator(const Setting& setting) {
  optim::UpdateOptions update = Critic(setting);
  update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  update.clip_grad_norm = 1;
  return update;
}

inline constexpr double kCriticRate = 1e-3, kGeneratorRate = 1e-2;

inline CompileOptions OptionsOf(const Setting& setting) {
  CompileOptions options;
  options.micro_batch = kBatch / setting.ranks();
  if (setting.mesh != nullptr) options.mesh = setting.mesh->mesh();
  options.rank = setting.rank();
  options.zero = setting.zero;
  options.accumulate = setting.accumulate;
  options.micro_steps_per_program = setting.micro_steps_per_program;
  options.join_updates = setting.join_updates;
  options.amp.dtype = setting.dtype;
  options.checkpointing = setting.checkpointing;
  options.threads = 2;
  return options;
}

inline CompileOptions BothOptions(const Setting& setting) {
  CompileOptions options = OptionsOf(setting);
  options.updates = {{"critic", Critic(setting)}, {"generator", Generator(setting)}};
  return options;
}

// What is left of steps: metrics of every step, critic's and generator's, and the weights.
struct Left {
  std::vector<double> losses, norms;
  std::vector<double> declared;  // sums, each with its count where it has one
  std::vector<std::vector<float>> weights;
  bool operator==(const Left&) const = default;
};

inline void TakeMetrics(const StepMetrics& metrics, Left& left) {
  left.losses.push_back(metrics.loss);
  left.norms.push_back(metrics.grad_norm);
  for (const MetricSum& metric : metrics.declared) {
    left.declared.insert(left.declared.end(), metric.sum.begin(), metric.sum.end());
    if (metric.count) left.declared.push_back(*metric.count);
  }
}

inline void TakeWeights(Session& session, const models::Model& model, Left& left) {
  for (const models::ParameterInfo& parameter : model.Stored()) {
    left.weights.push_back(session.ReadParameter(parameter.name));
  }
}

inline void RunSteps(Session& session, const Setting& setting, int64_t from, int64_t to,
                     Left& left) {
  // The critic judges real and fake points.
  const int64_t points = kBatch * setting.accumulate;  // of an update
  const ObjectiveStep critic = {
      std::vector(static_cast<size_t>(setting.critic_updates), 2 * points), kCriticRate};
  const ObjectiveStep generator = {{points}, kGeneratorRate};
  const StepPrograms& programs = session.compiled().step;
  for (int64_t step = from; step < to; ++step) {
    session.BeginStep(std::vector{critic, generator}, 1);
    for (int64_t run = 0; run < programs.runs(); ++run) {
      const StepRun what = programs.At(run);
      for (int64_t i = 0; i < what.micro_steps; ++i) {
        Fill(session, step * programs.draws + what.draw + i, setting.rank(), i);
      }
      session.Run(step, run);
    }
    session.EndStep();
    for (const StepMetrics& metrics : session.TakeMetrics()) TakeMetrics(metrics, left);
  }
}

inline Left Train(const Setting& setting, int64_t steps) {
  const auto model = Both(setting.critic_updates);
  ThreadPool pool(2);
  const auto device = runtime::MakeCpuDevice(pool);
  runtime::ExecutorOptions executor{.check_arena = setting.check_arena};
  runtime::AxisGroups groups;
  if (setting.mesh != nullptr) {
    executor.communicators = setting.mesh->communicators();
    groups = setting.mesh->groups();
  }
  Session session(Compile(*model, BothOptions(setting)), *device, executor, {}, groups);
  session.Initialize(*model, 1);
  Left left;
  RunSteps(session, setting, 0, steps, left);
  TakeWeights(session, *model, left);
  if (setting.check_arena) {
    EXPECT_EQ(session.used_bytes(), session.compiled().plan.arena_bytes);
  }
  return left;
}

}  // namespace plimsoll::trainer
