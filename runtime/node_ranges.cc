#include "runtime/node_ranges.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace plimsoll::runtime {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Place;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;
using Range = RangesByNode::Range;

bool Persistent(const Program& program, TensorId id) {
  return program.tensor(program.Root(id)).persistent;
}

Range RangeOf(const Program& program, const Layout& layout, ArenaBases bases, TensorId id) {
  const Tensor& tensor = program.tensor(id);
  return {bases.of(tensor.place) + layout.offset(id), static_cast<size_t>(tensor.bytes())};
}

bool Overlap(const Range& a, const Range& b) {
  return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

void AppendArguments(const Program& program, const std::vector<TensorId>& ids, std::string& text) {
  std::string_view separator = " ";
  for (TensorId id : ids) {
    text += separator;
    separator = ", ";
    if (id == kNoTensor) {
      text += "none";
    } else {
      text += program.tensor(id).name + " " + program.tensor(id).type.ToString();
    }
  }
}

}  // namespace

std::string DescribeNode(const Program& program, int index) {
  const Node& node = program.nodes()[index];
  std::string text = fmt::format("program '{}', node {}, {}{}{} (inputs", program.name(), index,
                                 node.op->name, node.scope.empty() ? "" : " in ", node.scope);
  AppendArguments(program, node.inputs, text);
  text += "; outputs";
  AppendArguments(program, node.outputs, text);
  return text + ")";
}

RangesByNode::RangesByNode(const std::vector<std::vector<Range>>& by_node) {
  starts_.push_back(0);
  for (const auto& ranges : by_node) {
    ranges_.insert(ranges_.end(), ranges.begin(), ranges.end());
    starts_.push_back(ranges_.size());
  }
}

RangesByNode FreshRanges(const Program& program, const Layout& layout, ArenaBases bases,
                         bool device_only) {
  std::vector<std::vector<Range>> by_node(program.nodes().size());
  for (size_t n = 0; n < by_node.size(); ++n) {
    const Node& node = program.nodes()[n];
    if (node.op->view) continue;
    for (TensorId id : node.outputs) {
      if (id == kNoTensor || Persistent(program, id)) continue;
      if (device_only && program.tensor(id).place != Place::kDevice) continue;
      const Range range = RangeOf(program, layout, bases, id);
      const bool in_place =
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId input) {
            return input != kNoTensor && Overlap(range, RangeOf(program, layout, bases, input));
          });
      if (!in_place) by_node[n].push_back(range);
    }
    if (node.workspace != kNoTensor) {
      by_node[n].push_back(RangeOf(program, layout, bases, node.workspace));
    }
  }
  return RangesByNode(by_node);
}

RangesByNode DyingRanges(const Program& program, const Layout& layout, ArenaBases bases) {
  const size_t count = program.nodes().size();
  std::vector<int> last_use(program.tensors().size(), -1);
  for (size_t n = 0; n < count; ++n) {
    const Node& node = program.nodes()[n];
    auto use = [&](TensorId id) {
      if (id != kNoTensor) last_use[program.Root(id)] = static_cast<int>(n);
    };
    for (TensorId id : node.inputs) use(id);
    for (TensorId id : node.outputs) use(id);
    use(node.workspace);
  }
  std::vector<std::vector<Range>> by_node(count);
  for (size_t i = 0; i < last_use.size(); ++i) {
    const TensorId id = static_cast<TensorId>(i);
    const Tensor& tensor = program.tensor(id);
    const bool ends =
        !tensor.persistent || std::ranges::find(layout.ending, id) != layout.ending.end();
    // The host reads metrics after the run, so they don't end.
    if (last_use[i] < 0 || !ends || tensor.role == Role::kMetric) continue;
    const Range range = RangeOf(program, layout, bases, id);
    const Node& node = program.nodes()[last_use[i]];
    const bool taken = std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId output) {
      return output != kNoTensor && program.Root(output) != id &&
             Overlap(range, RangeOf(program, layout, bases, output));
    });
    if (!taken) by_node[last_use[i]].push_back(range);
  }
  return RangesByNode(by_node);
}

std::vector<Gap> UncoveredGaps(const Program& program, const Layout& layout) {
  std::vector<Gap> covered, gaps;
  for (size_t i = 0; i < program.tensors().size(); ++i) {
    const Tensor& tensor = program.tensors()[i];
    if (tensor.place != Place::kDevice || layout.offsets[i] == kUnplaced || tensor.bytes() == 0) {
      continue;
    }
    covered.push_back({layout.offsets[i], layout.offsets[i] + tensor.bytes()});
  }
  std::sort(covered.begin(), covered.end(),
            [](const Gap& a, const Gap& b) { return a.begin < b.begin; });
  int64_t end = layout.persistent_bytes;
  for (const Gap& c : covered) {
    if (c.begin > end) gaps.push_back({end, c.begin});
    end = std::max(end, c.end);
  }
  if (layout.arena_bytes > end) gaps.push_back({end, layout.arena_bytes});
  return gaps;
}

ops::TensorRef RefOf(const Program& program, const Layout& layout, ArenaBases bases,
                     const Node& node, TensorId id) {
  if (id == kNoTensor) return {};
  const Tensor& tensor = program.tensor(id);
  const int64_t size =
      tensor.place == Place::kDevice ? layout.arena_bytes : layout.host_arena_bytes;
  const int64_t offset = layout.offset(id);
  if (offset < 0 || tensor.bytes() > size || offset > size - tensor.bytes()) {
    throw InternalError(fmt::format(
        "program '{}', {} in {}: '{}' ({} bytes at {}) lies outside its arena of {} bytes",
        program.name(), node.op->name, node.scope, tensor.name, tensor.bytes(), offset, size));
  }
  return {bases.of(tensor.place) + offset, tensor.type};
}

void CheckView(const Program& program, const Layout& layout, ArenaBases bases, int index) {
  const Node& node = program.nodes()[index];
  const TensorId from = node.inputs.empty() ? kNoTensor : node.inputs[0];
  const TensorId to = node.outputs.empty() ? kNoTensor : node.outputs[0];
  if (from != kNoTensor && to != kNoTensor) {
    const std::optional<graph::Alias>& alias = program.tensor(to).alias;
    const int64_t part = alias && alias->base == from
                             ? alias->OffsetOn(layout.position, program.tensor(to).bytes())
                             : 0;
    const auto* base = static_cast<std::byte*>(RefOf(program, layout, bases, node, from).data);
    if (RefOf(program, layout, bases, node, to).data == base + part) return;
  }
  throw InternalError(DescribeNode(program, index) + ": the view is not where its base is");
}

void CheckLayoutFits(const Program& program, const Layout& layout, int64_t arena_bytes,
                     int64_t host_arena_bytes) {
  if (layout.offsets.size() == program.tensors().size() && arena_bytes >= layout.arena_bytes &&
      host_arena_bytes >= layout.host_arena_bytes) {
    return;
  }
  throw InternalError(fmt::format(
      "program '{}': its layout ({} tensors, arenas of {} and {} bytes) does not fit "
      "({} tensors, {} and {} bytes)",
      program.name(), layout.offsets.size(), layout.arena_bytes, layout.host_arena_bytes,
      program.tensors().size(), arena_bytes, host_arena_bytes));
}

}  // namespace plimsoll::runtime
