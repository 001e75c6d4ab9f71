// A ResNet trained for a few steps on made-up images. A sample depends on its number alone, so that
// a step has the same samples however they are divided among ranks and micro-steps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/models/model_of.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

constexpr int64_t kImageSize = 8, kImageClasses = 10;

// Eight layers, for images of 8 × 8; `more` are further settings.
inline std::unique_ptr<models::Model> TinyResNet(const models::Values& more = {}) {
  models::Values values = {
      {"depth", int64_t{8}}, {"image_size", kImageSize}, {"classes", kImageClasses}};
  values.insert(values.end(), more.begin(), more.end());
  return models::ModelOf("resnet", values);
}

// Fills the inputs of a micro-step of a program with samples from `first` on.
inline void FillImages(const Session& session, int64_t first, int64_t micro_step = 0) {
  std::span<float> images;
  std::span<int32_t> labels;
  for (const Slot& slot : session.slots(micro_step)) {
    if (slot.name == "images") images = slot.values<float>();
    if (slot.name == "labels") labels = slot.values<int32_t>();
  }
  const size_t elements = images.size() / labels.size();
  for (size_t row = 0; row < labels.size(); ++row) {
    std::mt19937 random(static_cast<uint32_t>(first) + static_cast<uint32_t>(row));
    std::normal_distribution<float> normal(0.3f, 2);
    for (size_t i = 0; i < elements; ++i) images[row * elements + i] = normal(random);
    labels[row] = static_cast<int32_t>(random() % kImageClasses);
  }
}

struct ImageRun {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> weights;  // and states
};

// `samples` a step on all ranks together; `accumulate` and the mesh are the session's.
inline ImageRun RunImages(Session& session, const models::Model& model, int64_t samples, int steps,
                          int64_t rank = 0, int64_t ranks = 1) {
  const int64_t micro_batch = session.compiled().options.micro_batch;
  session.Initialize(model, 1);
  ImageRun run;
  for (int step = 0; step < steps; ++step) {
    session.BeginStep(samples, 0.02, 1);
    const StepPrograms& programs = session.compiled().step;
    for (int64_t n = 0; n < programs.runs(); ++n) {
      const StepRun of = programs.At(n);
      for (int64_t i = 0; i < of.micro_steps; ++i) {
        const int64_t part = (of.micro_step + i) * ranks + rank;
        FillImages(session, step * samples + part * micro_batch, i);
      }
      session.Run(step, n);
    }
    run.losses.push_back(session.Metrics().loss);
  }
  for (const models::ParameterInfo& parameter : model.Stored()) {
    if (!session.Carries(parameter.name)) continue;
    run.weights[parameter.name] = session.ReadParameter(parameter.name);
  }
  return run;
}

}  // namespace plimsoll::trainer
