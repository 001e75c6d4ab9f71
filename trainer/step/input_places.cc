#include "trainer/step/input_places.h"

#include <map>

#include "base/bytes.h"
#include "graph/micro_steps.h"
#include "graph/tensor_ids.h"
#include "parallel/rng_slots.h"
#include "runtime/cuda/upload_chunks.h"
#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kAlignment = 256;  // alignment of a slot in a place

// Adds the data inputs that a program's first micro-step reads to `bytes`, which maps an input's
// name to its bytes.
void AddData(const graph::Program& program, const std::set<std::string, std::less<>>& no_data,
             std::map<std::string, int64_t>& bytes) {
  std::set<graph::TensorId> read;  // tensors that nodes read, directly or through a view
  for (const graph::Node& node : program.nodes()) {
    for (const graph::TensorId id : graph::Present(node.inputs)) read.insert(program.Root(id));
  }
  for (const graph::TensorId id : read) {
    const graph::Tensor& tensor = program.tensor(id);
    const auto [micro_step, name] = graph::ParseMicroStepName(tensor.name);
    const bool data =
        tensor.role == graph::Role::kInput && micro_step == 0 && !no_data.contains(name);
    if (data) bytes.emplace(name, tensor.bytes());
  }
}

}  // namespace

std::set<std::string, std::less<>> InputsWithoutData(
    std::span<const models::Objective> objectives) {
  std::set<std::string, std::less<>> names = UpdateInputs(objectives);
  for (const parallel::RngSlot& slot : parallel::RngSlots()) names.emplace(slot.name);
  return names;
}

InputPlaceLayout LayOutInputs(std::span<const int64_t> slot_bytes) {
  InputPlaceLayout layout;
  for (const int64_t bytes : slot_bytes) {
    layout.offsets.push_back(layout.bytes);
    layout.bytes += RoundUp(bytes, kAlignment);
  }
  return layout;
}

HostInputBytes HostInputBytesOf(const CompileOptions& options,
                                std::span<const models::Objective> objectives,
                                std::span<const graph::Program* const> programs) {
  if (options.input_places == 0) return {};
  std::map<std::string, int64_t> of_data;
  const auto no_data = InputsWithoutData(objectives);
  for (const graph::Program* program : programs) AddData(*program, no_data, of_data);
  int64_t place = 0, batch = 0;
  for (const auto& [name, bytes] : of_data) {
    place += RoundUp(bytes, kAlignment);
    batch += bytes;
  }
  return {.place = place,
          .places = options.input_places * place,
          .slots = options.micro_steps_per_program * batch,
          .chunks = runtime::kUploadChunks * runtime::UploadChunkBytes(0),
          .evaluation = options.evaluation_places * batch};
}

}  // namespace plimsoll::trainer
