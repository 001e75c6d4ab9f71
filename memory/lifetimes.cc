#include "memory/lifetimes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll::memory {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;

// The part of a program in which a tensor is alive.
enum class Span : uint8_t { kThroughout, kWithin, kFromBegin, kToEnd };

// The span of each tensor, indexed by TensorId.
std::vector<Span> SpansOf(const Program& program, const KeptNeeds& kept) {
  std::vector<Span> spans;
  for (const Tensor& tensor : program.tensors()) {
    const auto found = tensor.persistent ? kept.find(tensor.name) : kept.end();
    if (found == kept.end()) {
      spans.push_back(tensor.persistent ? Span::kThroughout : Span::kWithin);
    } else {
      const KeptNeed& need = found->second;
      spans.push_back(need.throughout() ? Span::kThroughout
                      : need.before     ? Span::kFromBegin
                      : need.after      ? Span::kToEnd
                                        : Span::kWithin);
    }
  }
  return spans;
}

// Finds the first and last use of every root tensor: a tensor that owns its memory, no alias.
// Tensors that are alive throughout the program are skipped.
void FindUses(const Program& program, const std::vector<Span>& spans, Lifetimes& result) {
  const size_t count = program.tensors().size();
  const int32_t last_node = static_cast<int32_t>(program.nodes().size()) - 1;
  result.first_use.assign(count, -1);
  result.last_use.assign(count, -1);
  auto touch = [&](TensorId id, int32_t node, bool write) {
    if (id == kNoTensor) return;
    const TensorId root = program.Root(id);
    const Tensor& tensor = program.tensor(root);
    const Span span = spans[root];
    if (span == Span::kThroughout) return;
    const bool from_begin = tensor.role == Role::kInput || span == Span::kFromBegin;
    if (result.first_use[root] < 0) {
      if (!write && !from_begin) {
        throw InternalError(fmt::format(
            "program '{}': node {} ({}) reads '{}' before it is written", program.name(), node,
            program.nodes()[node].op->name, program.tensor(id).name));
      }
      result.first_use[root] = from_begin ? 0 : node;
    }
    const bool to_end = tensor.role == Role::kMetric || span == Span::kToEnd;
    result.last_use[root] = to_end ? last_node : node;
  };
  for (int32_t n = 0; n <= last_node; ++n) {
    const Node& node = program.nodes()[n];
    for (TensorId id : node.inputs) touch(id, n, false);
    for (TensorId id : node.outputs) touch(id, n, true);
    touch(node.workspace, n, true);
  }
}

// The tensor that the node may overwrite through argument `input`. The argument must be all of the
// tensor's memory, and neither another argument of the node nor a later node or program may use it.
TensorId Replaceable(const Program& program, const std::vector<Span>& spans,
                     const Lifetimes& lifetimes, int32_t n, int input) {
  const Node& node = program.nodes()[n];
  const TensorId id = node.inputs[input];
  const TensorId root = program.Root(id);
  // A node or program after this one uses the tensor, or the tensor is persistent.
  if (lifetimes.last_use[root] != n || spans[root] == Span::kToEnd) return kNoTensor;
  if (program.tensor(id).bytes() != program.tensor(root).bytes()) return kNoTensor;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (static_cast<int>(i) == input || node.inputs[i] == kNoTensor) continue;
    if (program.Root(node.inputs[i]) == root) return kNoTensor;
  }
  for (TensorId output : node.outputs) {
    if (output != kNoTensor && program.Root(output) == root) return kNoTensor;
  }
  return root;
}

// Whether `output`, first written by node n, may take the memory of `root`.
bool Fits(const Program& program, const std::vector<Span>& spans, const Lifetimes& lifetimes,
          int32_t n, TensorId root, TensorId output) {
  const Tensor& from = program.tensor(root);
  const Tensor& to = program.tensor(output);
  // The first use is -1 for a tensor that is alive throughout the program.
  const bool begins = spans[output] != Span::kFromBegin && lifetimes.first_use[output] == n;
  return !to.alias && begins && to.place == from.place && to.bytes() == from.bytes();
}

// Whether the buffer has a kept tensor and `output` is another kept tensor. Each kept tensor has a
// separate place, so the two cannot share a buffer.
bool HaveTwoPlaces(const Program& program, const Buffer& buffer, TensorId output) {
  return program.tensor(output).persistent && std::ranges::any_of(buffer.tensors, [&](TensorId id) {
           return program.tensor(id).persistent;
         });
}

}  // namespace

Lifetimes ComputeLifetimes(const Program& program, bool in_place, const KeptNeeds& kept) {
  Lifetimes result;
  const std::vector<Span> spans = SpansOf(program, kept);
  FindUses(program, spans, result);

  const size_t count = program.tensors().size();
  std::vector<int32_t> buffer_of_root(count, -1);
  result.buffers.reserve(count);
  auto add_buffer = [&](TensorId root) {
    Buffer buffer;
    buffer.tensors = {root};
    buffer.bytes = program.tensor(root).bytes();
    buffer.birth = result.first_use[root];
    buffer.death = result.last_use[root];
    buffer.place = program.tensor(root).place;
    buffer_of_root[root] = static_cast<int32_t>(result.buffers.size());
    result.buffers.push_back(std::move(buffer));
  };
  auto add_if_new = [&](TensorId id) {
    if (id == kNoTensor) return;
    const TensorId root = program.Root(id);
    if (buffer_of_root[root] < 0 && result.first_use[root] >= 0) add_buffer(root);
  };

  // Visits nodes in their order, so that a chain of in-place ops shares one buffer.
  for (int32_t n = 0; n < static_cast<int32_t>(program.nodes().size()); ++n) {
    const Node& node = program.nodes()[n];
    for (TensorId id : node.inputs) add_if_new(id);
    if (in_place && !node.op->view) {
      for (const graph::InPlacePair& pair : node.op->in_place) {
        if (pair.input >= static_cast<int>(node.inputs.size()) ||
            pair.output >= static_cast<int>(node.outputs.size())) {
          continue;
        }
        const TensorId output = node.outputs[pair.output];
        if (node.inputs[pair.input] == kNoTensor || output == kNoTensor) continue;
        const TensorId root = Replaceable(program, spans, result, n, pair.input);
        if (root == kNoTensor || buffer_of_root[output] >= 0 ||
            !Fits(program, spans, result, n, root, output)) {
          continue;
        }
        Buffer& buffer = result.buffers[buffer_of_root[root]];
        if (buffer.tensors.back() != root) continue;  // another output has taken this memory
        if (HaveTwoPlaces(program, buffer, output)) continue;
        buffer.tensors.push_back(output);
        buffer.death = result.last_use[output];
        buffer_of_root[output] = buffer_of_root[root];
      }
    }
    for (TensorId id : node.outputs) add_if_new(id);
    add_if_new(node.workspace);
  }

  result.buffer_of.assign(count, -1);
  for (size_t id = 0; id < count; ++id) {
    result.buffer_of[id] = buffer_of_root[program.Root(static_cast<TensorId>(id))];
  }
  return result;
}

const Node* WriterOf(const Program& program, const Lifetimes& lifetimes, TensorId owner) {
  const Tensor& tensor = program.tensor(owner);
  if (tensor.role == Role::kInput || tensor.persistent) return nullptr;
  return &program.nodes()[lifetimes.first_use[owner]];
}

std::vector<int64_t> LiveBytes(const Lifetimes& lifetimes, graph::Place place, size_t nodes,
                               int64_t alignment) {
  std::vector<int64_t> live(nodes + 1, 0);
  for (const Buffer& buffer : lifetimes.buffers) {
    if (buffer.place != place) continue;
    live[buffer.birth] += RoundUp(buffer.bytes, alignment);
    live[buffer.death + 1] -= RoundUp(buffer.bytes, alignment);
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

}  // namespace plimsoll::memory
