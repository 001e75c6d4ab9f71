// The mesh axes along which the passes of parallel/ work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/mesh.h"

namespace plimsoll {

inline constexpr std::string_view kDataAxis = "data";          // ranks share a step's sequences
inline constexpr std::string_view kTensorAxis = "tensor";      // ranks share every layer
inline constexpr std::string_view kPipelineAxis = "pipeline";  // each rank has some of the blocks

// Weights are gathered while earlier layers work (parallel/zero_weights.h). `reduces_maxima`:
// whether ranks find the largest magnitudes of what becomes 8-bit codes together.
inline MeshAxis DataAxis(int64_t ranks, bool reduces_maxima = false) {
  return {.name = std::string(kDataAxis),
          .ranks = ranks,
          .gathers_beside_work = true,
          .reduces_maxima = reduces_maxima};
}

// A loss over a vocabulary that is split among ranks reduces maxima
// (ops/collectives/vocabulary_shard.h).
inline MeshAxis TensorAxis(int64_t ranks) {
  return {.name = std::string(kTensorAxis), .ranks = ranks, .reduces_maxima = true};
}

// Stages send activations and gradients to their neighbours (runtime/stage_link.h).
inline MeshAxis PipelineAxis(int64_t ranks) {
  return {.name = std::string(kPipelineAxis), .ranks = ranks, .stages = true};
}

// Along which the first and the last stage share tables: no axis of a mesh's list. Where more than
// two stages are, the mesh has it: its groups are the two ends of the groups of stages, and the
// ranks between them are alone. Of two stages the ends are all.
inline constexpr std::string_view kEndsAxis = "ends";

// The axes of the list, and the ends if the mesh has them.
inline std::vector<MeshAxis> AllAxes(const Mesh& mesh) {
  std::vector<MeshAxis> axes = mesh.axes();
  if (mesh.Has(kEndsAxis)) {
    axes.push_back({.name = std::string(kEndsAxis), .ranks = 2, .stages = true});
  }
  return axes;
}

}  // namespace plimsoll
