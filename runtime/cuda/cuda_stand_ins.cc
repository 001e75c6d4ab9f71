#include "runtime/cuda/cuda_stand_ins.h"

#include "runtime/call_arguments.h"

namespace plimsoll::runtime {
namespace {

using graph::kNoTensor;
using graph::TensorId;

constexpr int64_t kAlignment = 256;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

int64_t CudaStandIns::Bytes(const graph::Program& program, const graph::Node& node,
                            int64_t workspace_bytes) {
  int64_t bytes = Aligned(workspace_bytes) + kAlignment;
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (TensorId id : *ids) {
      if (id != kNoTensor) bytes += Aligned(program.tensor(id).bytes());
    }
  }
  return bytes;
}

CudaStandIns::CudaStandIns(const graph::Program& program, const graph::Node& node,
                           int64_t workspace_bytes, std::byte* scratch) {
  const auto take = [&](int64_t bytes) {
    std::byte* data = scratch;
    scratch += Aligned(bytes);
    return data;
  };
  for (TensorId id : node.inputs) {
    ops::TensorRef& ref = inputs.emplace_back();
    if (id != kNoTensor) ref = {take(program.tensor(id).bytes()), program.tensor(id).type};
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorId id = node.outputs[i];
    ops::TensorRef& ref = outputs.emplace_back();
    if (id == kNoTensor) continue;
    const int input = InPlaceInput(program, node, static_cast<int>(i));
    ref = {input >= 0 ? inputs[static_cast<size_t>(input)].data : take(program.tensor(id).bytes()),
           program.tensor(id).type};
  }
  workspace = take(workspace_bytes);
}

}  // namespace plimsoll::runtime
