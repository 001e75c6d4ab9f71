#include "runtime/cpu_instruments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace plimsoll::runtime {
namespace {

using graph::DType;
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
    // Metrics are for the host to read after the run.
    if (last_use[i] < 0 || tensor.persistent || tensor.role == Role::kMetric) continue;
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

void Poison::Fill(std::span<const Range> ranges) {
  for (const Range& range : ranges) std::memset(range.begin, 0xFF, range.bytes);
}

ArenaMeter::ArenaMeter(const Program& program, const Layout& layout, ArenaBases bases)
    : program_(program),
      base_(bases.device),
      alignment_(layout.alignment),
      fresh_(FreshRanges(program, layout, bases, /*device_only=*/true)),
      used_bytes_(layout.persistent_bytes) {
  std::vector<Gap> covered;
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
    if (c.begin > end) gaps_.push_back({end, c.begin});
    end = std::max(end, c.end);
  }
  if (layout.arena_bytes > end) gaps_.push_back({end, layout.arena_bytes});
}

std::byte ArenaMeter::Pattern(int64_t offset) const {
  const uint64_t mixed = (static_cast<uint64_t>(offset) + run_ * 0x51ED2701u) * 0x9E3779B97F4A7C15u;
  return static_cast<std::byte>(mixed >> 56);
}

void ArenaMeter::Fill(int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) base_[i] = Pattern(i);
}

void ArenaMeter::BeforeRun() {
  ++run_;
  for (const Gap& gap : gaps_) Fill(gap.begin, gap.end);
}

void ArenaMeter::BeforeNode(int node) {
  for (const Range& range : fresh_[node]) {
    const int64_t begin = range.begin - base_;
    Fill(begin, begin + static_cast<int64_t>(range.bytes));
  }
}

void ArenaMeter::AfterNode(int node) {
  for (const Range& range : fresh_[node]) {
    const int64_t begin = range.begin - base_;
    const int64_t end = begin + static_cast<int64_t>(range.bytes);
    const int64_t rounded = (end + alignment_ - 1) / alignment_ * alignment_;
    if (rounded <= used_bytes_) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (base_[i] != Pattern(i)) {
        used_bytes_ = rounded;
        break;
      }
    }
  }
}

void ArenaMeter::AfterRun() {
  for (const Gap& gap : gaps_) {
    for (int64_t i = gap.begin; i < gap.end; ++i) {
      if (base_[i] == Pattern(i)) continue;
      throw InternalError(fmt::format(
          "program '{}' wrote byte {} of the arena, which belongs to none of its tensors",
          program_.name(), i));
    }
  }
}

namespace {

template <typename T>
int64_t FirstNotFinite(const std::byte* data, int64_t count) {
  const T* values = reinterpret_cast<const T*>(data);
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return i;
  }
  return -1;
}

}  // namespace

void CheckFinite(const Program& program, int index, const Layout& layout, ArenaBases bases) {
  for (TensorId id : program.nodes()[index].outputs) {
    if (id == kNoTensor) continue;
    const Tensor& tensor = program.tensor(id);
    const std::byte* data = bases.of(tensor.place) + layout.offset(id);
    const int64_t count = tensor.type.shape.elements();
    int64_t bad = -1;
    if (tensor.type.dtype == DType::kFloat32) bad = FirstNotFinite<float>(data, count);
    if (tensor.type.dtype == DType::kFloat64) bad = FirstNotFinite<double>(data, count);
    if (bad >= 0) {
      throw InternalError(fmt::format("{}: '{}' is not finite at element {}",
                                      DescribeNode(program, index), tensor.name, bad));
    }
  }
}

}  // namespace plimsoll::runtime
