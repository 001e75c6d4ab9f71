#include "runtime/cuda/cuda_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/collectives/collective.h"
#include "ops/cuda_workspace.h"
#include "runtime/device_kind.h"

namespace plimsoll::runtime {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Place;
using graph::Program;
using graph::TensorId;
using graph::Transfer;

bool Meet(const std::vector<RangesByNode::Range>& a, const std::vector<RangesByNode::Range>& b) {
  for (const auto& x : a) {
    for (const auto& y : b) {
      if (x.begin < y.begin + y.bytes && y.begin < x.begin + x.bytes) return true;
    }
  }
  return false;
}

int64_t Distance(const void* from, const void* to) {
  return static_cast<const std::byte*>(to) - static_cast<const std::byte*>(from);
}

}  // namespace

CudaSchedule::CudaSchedule(const Program& program, const Layout& layout, ArenaBases bases,
                           const CudaStreams& streams, gpu::Libraries& libraries, bool in_order,
                           const ops::AxisCommunicators& communicators, const TensorMemory& memory)
    : program_(program),
      layout_(layout),
      bases_(bases),
      streams_(streams),
      libraries_(libraries),
      in_order_(in_order),
      communicators_(communicators),
      memory_(memory) {
  size_t arguments = 0;
  for (const Node& node : program.nodes()) arguments += node.inputs.size() + node.outputs.size();
  // Prevents reallocation: contexts point into refs_, and groups are spans of contexts_.
  refs_.reserve(arguments);
  contexts_.reserve(program.nodes().size());
  for (size_t n = 0; n < program.nodes().size(); ++n) Bind(static_cast<int>(n));
}

bool CudaSchedule::Touched::Independent(const Touched& other) const {
  return !Meet(writes, other.reads) && !Meet(writes, other.writes) && !Meet(reads, other.writes);
}

void CudaSchedule::Touched::Add(const Touched& other) {
  reads.insert(reads.end(), other.reads.begin(), other.reads.end());
  writes.insert(writes.end(), other.writes.begin(), other.writes.end());
}

ops::TensorRef CudaSchedule::Ref(const Node& node, TensorId id) const {
  return RefOf(program_, layout_, bases_, node, id);
}

void CudaSchedule::Bind(int index) {
  const Node& node = program_.nodes()[index];
  if (node.op->transfer == Transfer::kCopyStart) return BindCopy(index);
  if (!node.op->view) return BindKernel(index);
  CheckView(program_, layout_, bases_, index);
  if (node.op->transfer != Transfer::kNone) BindDone(index);
}

// Appends an item that does the complete work. On the compute stream, nothing needs to wait for it.
void CudaSchedule::Append(CudaItem item, CudaSideWork work) {
  for (int node : item.nodes) {
    work.gives.push_back(program_.Root(program_.nodes()[node].outputs[0]));
  }
  item.side = side_works_.size();
  side_works_.push_back(std::move(work));
  items_.push_back(std::move(item));
}

void CudaSchedule::BindCopy(int index) {
  const Node& node = program_.nodes()[index];
  const TensorId from = node.inputs[0], to = node.outputs[0];
  const Place source = program_.tensor(from).place, target = program_.tensor(to).place;
  CudaSideWork copy;
  if (!in_order_ && source != target) copy.stream = target == Place::kHost ? kToHost : kToDevice;
  copy.target = Ref(node, to).data;
  copy.source = Ref(node, from).data;
  copy.bytes = static_cast<size_t>(program_.tensor(to).bytes());
  if (JoinsCopyBefore(copy)) {
    CudaSideWork& before = side_works_.back();
    before.bytes = static_cast<size_t>(Distance(before.target, copy.target)) + copy.bytes;
    before.gives.push_back(program_.Root(to));
    items_.back().nodes.push_back(index);
    return;
  }
  CudaItem item;
  item.kind = CudaItem::Kind::kCopy;
  item.nodes = {index};
  Append(std::move(item), std::move(copy));
}

// Whether the copy begins, in both places, where the previous copy ends. Then both become one copy,
// because a queue of thousands of copies fills up and makes the host wait. The padding that aligns
// the second tensor is copied, too. As other copies wait for a running copy, the joint copy must
// not be too long.
bool CudaSchedule::JoinsCopyBefore(const CudaSideWork& copy) const {
  constexpr int64_t kLongest = int64_t{64} << 20;
  if (in_order_ || items_.empty() || items_.back().kind != CudaItem::Kind::kCopy) return false;
  const CudaSideWork& before = side_works_.back();
  if (before.stream != copy.stream) return false;
  const int64_t distance = Distance(before.target, copy.target);
  const int64_t gap = distance - static_cast<int64_t>(before.bytes);
  return distance == Distance(before.source, copy.source) && gap >= 0 &&
         gap < TensorAlignment(DeviceKind::kCuda) &&
         distance + static_cast<int64_t>(copy.bytes) <= kLongest;
}

void CudaSchedule::BindDone(int index) {
  const TensorId root = program_.Root(program_.nodes()[index].inputs[0]);
  const auto started =
      std::find_if(side_works_.rbegin(), side_works_.rend(), [&](const CudaSideWork& work) {
        return std::ranges::find(work.gives, root) != work.gives.end();
      });
  if (started == side_works_.rend()) {
    throw InternalError(DescribeNode(program_, index) + ": it was not started");
  }
  const size_t side = static_cast<size_t>(started.base() - side_works_.begin()) - 1;
  if (!items_.empty() && items_.back().kind == CudaItem::Kind::kDone &&
      items_.back().side == side) {
    items_.back().nodes.push_back(index);
    return;
  }
  CudaItem item;
  item.kind = CudaItem::Kind::kDone;
  item.nodes = {index};
  item.side = side;
  items_.push_back(std::move(item));
}

CudaStreamIndex CudaSchedule::StreamOfKernel(const Node& node) const {
  if (in_order_ || !ops::IsCollective(*node.op)) return kCompute;
  // An all-reduce with separate input and output runs on the compute stream. On another stream, its
  // input's memory could be reused before the sum is done.
  const bool elsewhere = node.op->name == "all_reduce_start" &&
                         Ref(node, node.inputs[0]).data != Ref(node, node.outputs[0]).data;
  if (elsewhere) return kCompute;
  const size_t number = communicators_.NumberOf(ops::AxisOf(node.attributes));
  if (number >= CudaStreams::kMostAxes) throw InternalError("more axes than streams for them");
  return static_cast<CudaStreamIndex>(kCollectives + number);
}

void CudaSchedule::BindKernel(int index) {
  const Node& node = program_.nodes()[index];
  const ops::CudaKernel* kernel = ops::FindCudaKernel(node.op->name);
  if (kernel == nullptr) {
    throw InternalError(DescribeNode(program_, index) + ": the op has no CUDA kernel");
  }
  const size_t first = refs_.size();
  for (TensorId id : node.inputs) refs_.push_back(Ref(node, id));
  for (TensorId id : node.outputs) refs_.push_back(Ref(node, id));
  const std::span<const ops::TensorRef> inputs(refs_.data() + first, node.inputs.size());
  const std::span<const ops::TensorRef> outputs(refs_.data() + first + node.inputs.size(),
                                                node.outputs.size());
  const ops::TensorRef workspace = Ref(node, node.workspace);
  const int64_t workspace_bytes = node.workspace == kNoTensor ? 0 : workspace.type.bytes();
  const int64_t wanted =
      ops::CudaWorkspaceBytes(program_.CallOf(node).get(), libraries_.capability());
  if (wanted > workspace_bytes) {
    throw InternalError(fmt::format("{}: workspace of {} bytes, but the CUDA kernel wants {}",
                                    DescribeNode(program_, index), workspace_bytes, wanted));
  }
  const bool collective = ops::IsCollective(*node.op);
  const CudaStreamIndex stream = StreamOfKernel(node);
  contexts_.push_back(
      ops::CudaContext{{*node.op, inputs, outputs, node.attributes, workspace.data, workspace_bytes,
                        ops::CommunicatorFor(node.attributes, communicators_)},
                       streams_.of(stream),
                       libraries_});

  Touched touched = TouchedBy(node);
  const bool joins = kernel->run_group != nullptr && !items_.empty() &&
                     items_.back().kernel == kernel && group_.Independent(touched) &&
                     !memory_.TakesMemory(index) &&
                     (!collective || side_works_.back().stream == stream);
  if (joins) {
    items_.back().nodes.push_back(index);
    if (collective) side_works_.back().gives.push_back(program_.Root(node.outputs[0]));
    group_.Add(touched);
    return;
  }
  CudaItem item;
  item.nodes = {index};
  item.kernel = kernel;
  item.first_context = contexts_.size() - 1;
  if (collective) {
    CudaSideWork work;
    work.stream = stream;
    Append(std::move(item), std::move(work));
  } else {
    items_.push_back(std::move(item));
  }
  group_ = std::move(touched);
}

void CudaSchedule::Resolve(const CudaItem& item, size_t i) {
  const int index = item.nodes[i];
  const Node& node = program_.nodes()[index];
  const auto address = [&](TensorId id) { return AddressFor(memory_, program_, index, id); };
  if (item.kind == CudaItem::Kind::kDone) return;
  if (item.kind == CudaItem::Kind::kCopy) {
    side_works_[item.side].source = address(node.inputs[0]);
    side_works_[item.side].target = address(node.outputs[0]);
    return;
  }
  ops::CudaContext& context = contexts_[item.first_context + i];
  ops::TensorRef* ref = refs_.data() + (context.inputs.data() - refs_.data());
  for (TensorId id : node.inputs) (ref++)->data = address(id);
  for (TensorId id : node.outputs) (ref++)->data = address(id);
  context.workspace = address(node.workspace);
}

CudaSchedule::Touched CudaSchedule::TouchedBy(const Node& node) const {
  Touched touched;
  const auto add = [&](Touched::Ranges& ranges, TensorId id) {
    if (id == kNoTensor) return;
    const ops::TensorRef ref = Ref(node, id);
    ranges.push_back({static_cast<std::byte*>(ref.data), static_cast<size_t>(ref.type.bytes())});
  };
  for (TensorId id : node.inputs) add(touched.reads, id);
  for (TensorId id : node.outputs) add(touched.writes, id);
  add(touched.writes, node.workspace);
  return touched;
}

}  // namespace plimsoll::runtime
