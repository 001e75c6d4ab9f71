// A few steps of training a model on inputs that a test fills, and what they leave.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/thread_pool.h"
#include "models/model.h"
#include "runtime/device.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

struct Trained {
  std::vector<double> losses, norms;
  std::vector<std::vector<float>> weights;
  StepMetrics last;
  int64_t used = 0, arena = 0;
};

// Fills the inputs of a micro-step.
using FillInputs = std::function<void(Session&, int step, int64_t micro_step)>;

inline Trained TrainSteps(const models::Model& model, const CompileOptions& options, int steps,
                          double lr, const FillInputs& fill) {
  ThreadPool pool(2);
  const auto device = runtime::MakeCpuDevice(pool);
  Session session(Compile(model, options), *device, {.check_arena = true});
  session.Initialize(model, 1);
  Trained trained;
  for (int step = 0; step < steps; ++step) {
    session.BeginStep(options.micro_batch * options.accumulate, lr, 1);
    for (int64_t micro = 0; micro < options.accumulate; ++micro) {
      fill(session, step, micro);
      session.Run(step, micro);
    }
    trained.last = session.Metrics();
    trained.losses.push_back(trained.last.loss);
    trained.norms.push_back(trained.last.grad_norm);
  }
  for (const models::ParameterInfo& parameter : model.Stored()) {
    trained.weights.push_back(session.ReadParameter(parameter.name));
  }
  trained.used = session.used_bytes();
  trained.arena = session.compiled().plan.arena_bytes;
  return trained;
}

// To the bit, states among the weights; and what it took is what was planned.
inline void ExpectSame(const Trained& got, const Trained& want) {
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.norms, want.norms);
  EXPECT_EQ(got.weights, want.weights);
  EXPECT_EQ(got.used, got.arena);
}

}  // namespace plimsoll::trainer
