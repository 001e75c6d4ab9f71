// The mesh axes along which the passes of parallel/ work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/mesh.h"

namespace plimsoll {

inline constexpr std::string_view kDataAxis = "data";          // ranks share a step's sequences
inline constexpr std::string_view kTensorAxis = "tensor";      // ranks split every layer
inline constexpr std::string_view kPipelineAxis = "pipeline";  // each rank has some of the blocks

// The axis of data parallelism: weights are gathered while earlier layers work
// (parallel/zero_weights.h). `reduces_maxima`: whether ranks reduce the largest magnitudes of
// values that become 8-bit codes.
inline MeshAxis DataAxis(int64_t ranks, bool reduces_maxima = false) {
  return {.name = std::string(kDataAxis),
          .ranks = ranks,
          .gathers_overlap = true,
          .reduces_maxima = reduces_maxima};
}

// The axis of tensor parallelism. It reduces maxima, as a loss over a vocabulary that is split
// among ranks does (ops/collectives/vocabulary_shard.h).
inline MeshAxis TensorAxis(int64_t ranks) {
  return {.name = std::string(kTensorAxis), .ranks = ranks, .reduces_maxima = true};
}

// The axis of pipeline stages. A stage sends activations and gradients to its neighbours
// (runtime/stage_link.h). `ends_share`: whether the first and the last stage share tables.
inline MeshAxis PipelineAxis(int64_t ranks, bool ends_share = false) {
  return {
      .name = std::string(kPipelineAxis), .ranks = ranks, .stages = true, .ends_share = ends_share};
}

// The axis along which the first and the last stage share tables. It is not in a mesh's list of
// axes: a mesh with more than two stages whose ends share tables has it in addition. Its groups are
// the first and the last stage of each group of stages; each rank between them is alone. With two
// stages, the stages' own groups serve as groups of ends.
inline constexpr std::string_view kEndsAxis = "ends";

// The axes of the mesh's list, and kEndsAxis if the mesh has it.
inline std::vector<MeshAxis> AllAxes(const Mesh& mesh) {
  std::vector<MeshAxis> axes = mesh.axes();
  if (mesh.Has(kEndsAxis)) {
    axes.push_back({.name = std::string(kEndsAxis), .ranks = 2, .stages = true});
  }
  return axes;
}

}  // namespace plimsoll
