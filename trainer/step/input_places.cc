#include "trainer/step/input_places.h"

#include <map>

#include "base/bytes.h"
#include "graph/micro_steps.h"
#include "parallel/rng_slots.h"
#include "runtime/cuda/upload_chunks.h"
#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kAlignment = 256;  // of a slot in a place

// The tensors that nodes of the program read, themselves or by an alias.
std::set<graph::TensorId> ReadBy(const graph::Program& program) {
  std::set<graph::TensorId> read;
  for (const graph::Node& node : program.nodes()) {
    for (const graph::TensorId id : node.inputs) {
      if (id != graph::kNoTensor) read.insert(program.Root(id));
    }
  }
  return read;
}

// The bytes of the data that a program's first micro-step reads, by name.
void AddData(const graph::Program& program, const std::set<std::string, std::less<>>& no_data,
             std::map<std::string, int64_t>& bytes) {
  const std::set<graph::TensorId> read = ReadBy(program);
  for (size_t i = 0; i < program.tensors().size(); ++i) {
    const graph::Tensor& tensor = program.tensors()[i];
    const auto [micro_step, name] = graph::ParseMicroStepName(tensor.name);
    const bool data = tensor.role == graph::Role::kInput && !tensor.alias && micro_step == 0 &&
                      !no_data.contains(name);
    if (data && read.contains(static_cast<graph::TensorId>(i))) {
      bytes.emplace(name, tensor.bytes());
    }
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
