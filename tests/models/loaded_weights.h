// Whole checkpoints in memory, as float32.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/low_precision.h"
#include "models/huggingface.h"

namespace plimsoll::models {

using LoadedWeights = std::map<std::string, std::vector<float>>;  // by parameter

// By WeightReader; without parameters that have to start afresh.
inline LoadedWeights ReadWeights(const std::string& folder, const Model& model,
                                 Misfits misfits = Misfits::kRefused) {
  LoadedWeights weights;
  const WeightReader reader(folder, model, misfits);
  for (const ParameterInfo& parameter : model.Stored()) {
    if (!reader.Has(parameter)) continue;
    std::vector<float>& values = weights[parameter.name];
    values.resize(static_cast<size_t>(parameter.shape.elements()));
    reader.Read(parameter, values.data());
  }
  return weights;
}

inline void CopyAsFloat32(const graph::TypedElements& elements, float* to) {
  const auto* const floats = reinterpret_cast<const float*>(elements.data);
  const auto* const low = reinterpret_cast<const uint16_t*>(elements.data);
  for (int64_t i = 0; i < elements.count; ++i) {
    to[i] = elements.dtype == graph::DType::kFloat32    ? floats[i]
            : elements.dtype == graph::DType::kBFloat16 ? FromBf16(low[i])
                                                        : FromF16(low[i]);
  }
}

// By LoadWeights, through buffers of that size. InternalError unless each element is given once.
struct Pieces {
  int threads = 2;
  int buffers = 3;
  size_t buffer_bytes = 4096;
};
inline LoadedWeights LoadPieces(const std::string& folder, const Model& model, const Pieces& pieces,
                                Misfits misfits = Misfits::kRefused) {
  LoadedWeights weights;
  std::map<std::string, std::atomic<int64_t>> given;
  for (const ParameterInfo& parameter : model.Stored()) {
    weights[parameter.name].resize(static_cast<size_t>(parameter.shape.elements()), -1e30f);
    given[parameter.name] = 0;
  }
  ThreadPool pool(pieces.threads);
  const HostStaging staging(pieces.buffers, pieces.buffer_bytes);
  const std::vector<ParameterInfo> fresh = LoadWeights(
      folder, model, staging.buffers(), pool,
      [&](const ParameterInfo& parameter, int64_t first, const graph::TypedElements& elements) {
        std::vector<float>& values = weights.at(parameter.name);
        if (first < 0 || first + elements.count > static_cast<int64_t>(values.size())) {
          throw InternalError(parameter.name + " has no such elements");
        }
        CopyAsFloat32(elements, values.data() + first);
        given.at(parameter.name) += elements.count;
      },
      {.misfits = misfits});
  for (const ParameterInfo& parameter : fresh) {
    weights.erase(parameter.name);
    if (given.at(parameter.name) != 0) throw InternalError(parameter.name + " is read");
  }
  for (const auto& [name, values] : weights) {
    if (given.at(name) != static_cast<int64_t>(values.size())) {
      throw InternalError(name + " is not read once");
    }
  }
  return weights;
}

}  // namespace plimsoll::models
