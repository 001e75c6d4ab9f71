// What a session holds after it has read a checkpoint, beside what it holds after it was told the
// same weights one by one.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/low_precision.h"
#include "models/huggingface.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {

using GivenWeights = std::map<std::string, std::vector<float>>;

// Numbers that a type of weights in files can hold.
inline GivenWeights WeightsFor(const models::Model& model, formats::TensorType type) {
  GivenWeights weights;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const models::ParameterInfo& parameter : model.parameters()) {
    std::vector<float>& values = weights[parameter.name];
    values.resize(static_cast<size_t>(parameter.shape.elements()));
    for (float& value : values) {
      value = normal(random);
      if (type == formats::TensorType::kBf16) value = FromBf16(ToBf16(value));
      if (type == formats::TensorType::kF16) value = FromF16(ToF16(value));
    }
  }
  return weights;
}

inline void SaveGiven(const std::string& folder, const models::Model& model,
                      const GivenWeights& weights, formats::TensorType type,
                      int64_t max_file_bytes = models::kMaxCheckpointFileBytes) {
  models::SaveWeights(
      folder, model,
      [&](const models::ParameterInfo& parameter) -> const float* {
        return weights.at(parameter.name).data();
      },
      max_file_bytes, type);
}

inline std::map<std::string, std::vector<std::byte>> StateBytes(const Session& session) {
  std::map<std::string, std::vector<std::byte>> state;
  for (const StateTensor& tensor : session.State()) {
    std::vector<std::byte>& bytes = state[tensor.name];
    bytes.resize(static_cast<size_t>(tensor.elements * graph::ByteSize(tensor.dtype)));
    session.ReadState(tensor, 0, bytes);
  }
  return state;
}

// The state of what `run` compiles, equal to the bit, on this rank and with the parts of weights
// that others train. All ranks call.
inline void ExpectLoadsAsWritten(const TinyRun& run, const models::Model& model,
                                 const GivenWeights& weights, const std::string& folder) {
  ThreadPool pool(run.threads);
  const auto device = run.cuda ? runtime::MakeCudaDevice(pool) : runtime::MakeCpuDevice(pool);
  const CompileOptions options = OptionsOf(run, model, device->kind());
  runtime::ExecutorOptions executor;
  if (run.ranks != nullptr) executor.communicators = run.ranks->communicators();
  const runtime::AxisGroups groups =
      run.ranks == nullptr ? runtime::AxisGroups() : run.ranks->groups();
  Session written(Compile(model, options), *device, executor, {}, groups);
  for (const auto& [name, values] : weights) written.WriteParameter(name, values);
  Session loaded(Compile(model, options), *device, executor, {}, groups);
  const models::Model::NewTokens& tokens = model.new_tokens();
  if (tokens.first < tokens.end) {
    loaded.StartFrom(model, folder, 1);
  } else {
    loaded.LoadWeights(model, folder);
  }
  const auto expected = StateBytes(written), found = StateBytes(loaded);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, bytes] : expected) EXPECT_EQ(found.at(name) == bytes, true) << name;
  const bool exact = options.amp.dtype == graph::DType::kFloat32 || options.update.master_weights;
  for (const models::ParameterInfo& parameter : model.parameters()) {
    const std::vector<float> values = loaded.ReadParameter(parameter.name);
    EXPECT_EQ(values == written.ReadParameter(parameter.name), true) << parameter.name;
    if (exact) {
      EXPECT_EQ(values == weights.at(parameter.name), true) << parameter.name;
    }
  }
  // Weights that are whole here, of which other ranks train the parts.
  for (const models::ParameterInfo& parameter : model.parameters()) {
    const std::string& name = parameter.name;
    if (options.amp.dtype == graph::DType::kFloat32) {
      EXPECT_EQ(loaded.Read<float>(name) == written.Read<float>(name), true) << name;
    }
  }
}

}  // namespace plimsoll::trainer
