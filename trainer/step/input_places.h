// Places for batches in a GPU's pinned memory: what they and all else that inputs pass through take
// of the host.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"
#include "models/model.h"
#include "trainer/step/compile_options.h"

namespace plimsoll::trainer {

// The names of inputs that the host does not fill with data: what a step is told once, and random
// draws.
std::set<std::string, std::less<>> InputsWithoutData(std::span<const models::Objective> objectives);

// Where the slots of a micro-step lie in a place.
struct InputPlaceLayout {
  std::vector<int64_t> offsets;  // by slot
  int64_t bytes = 0;             // the size of a place
};
InputPlaceLayout LayOutInputs(std::span<const int64_t> slot_bytes);

// The bytes of the host that inputs of a training with CompileOptions::input_places pass through;
// otherwise zeros.
struct HostInputBytes {
  int64_t place = 0;   // the size of one place, which holds a micro-step's data
  int64_t places = 0;  // all places, which are pinned
  int64_t slots = 0;   // of Session::slots(), for evaluations and the check of the first samples
  int64_t chunks = 0;  // pinned, for smaller transfers (runtime/cuda/upload_chunks.h)
  int64_t evaluation = 0;  // batches that threads prepare for evaluations

  int64_t all() const { return places + slots + chunks + evaluation; }
};
// `programs`: the step's and those of evaluations.
HostInputBytes HostInputBytesOf(const CompileOptions& options,
                                std::span<const models::Objective> objectives,
                                std::span<const graph::Program* const> programs);

}  // namespace plimsoll::trainer
