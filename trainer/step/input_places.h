// Input places: buffers for batches in pinned memory. One place holds one micro-step's data. Also
// computes the host memory that the places and all other input buffers take.
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

// The names of inputs that data does not fill: values that a step gets once, and random numbers.
std::set<std::string, std::less<>> InputsWithoutData(std::span<const models::Objective> objectives);

// The layout of a micro-step's input slots in a place.
struct InputPlaceLayout {
  std::vector<int64_t> offsets;  // offsets of the slots
  int64_t bytes = 0;             // the size of a place
};
InputPlaceLayout LayOutInputs(std::span<const int64_t> slot_bytes);

// The host memory that training inputs pass through with CompileOptions::input_places. All fields
// are zero without that option.
struct HostInputBytes {
  int64_t place = 0;   // the size of one place, which holds a micro-step's data
  int64_t places = 0;  // the size of all places, which are pinned
  // The size of Session::slots(), used by evaluations and the check of the first samples.
  int64_t slots = 0;
  // The size of pinned chunks for smaller transfers (runtime/cuda/upload_chunks.h).
  int64_t chunks = 0;
  int64_t evaluation = 0;  // the size of the batches that threads prepare for evaluations

  int64_t all() const { return places + slots + chunks + evaluation; }
};
// `programs` are the programs of the step and of evaluations.
HostInputBytes HostInputBytesOf(const CompileOptions& options,
                                std::span<const models::Objective> objectives,
                                std::span<const graph::Program* const> programs);

}  // namespace plimsoll::trainer
