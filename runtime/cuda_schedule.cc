#include "runtime/cuda_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/cuda_workspace.h"

namespace plimsoll::runtime {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Place;
using graph::Program;
using graph::TensorId;

bool Meet(const std::vector<RangesByNode::Range>& a, const std::vector<RangesByNode::Range>& b) {
  for (const auto& x : a) {
    for (const auto& y : b) {
      if (x.begin < y.begin + y.bytes && y.begin < x.begin + x.bytes) return true;
    }
  }
  return false;
}

}  // namespace

CudaSchedule::CudaSchedule(const Program& program, const Layout& layout, ArenaBases bases,
                           cudaStream_t compute, gpu::Libraries& libraries, bool copies_in_order,
                           const ops::AxisCommunicators& communicators)
    : program_(program),
      layout_(layout),
      bases_(bases),
      compute_(compute),
      libraries_(libraries),
      copies_in_order_(copies_in_order),
      communicators_(communicators) {
  size_t arguments = 0;
  for (const Node& node : program.nodes()) arguments += node.inputs.size() + node.outputs.size();
  refs_.reserve(arguments);  // neither moves: contexts point into it, groups are spans of these
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
  if (node.op->name == "copy_start") return BindCopyStart(index);
  if (node.op->name == "copy_done") return BindCopyDone(index);
  if (!node.op->view) return BindKernel(index);
  // No work, as long as the bytes really are the same.
  const auto data = [&](const std::vector<TensorId>& ids) {
    return ids.empty() ? nullptr : Ref(node, ids[0]).data;
  };
  if (data(node.outputs) == nullptr || data(node.outputs) != data(node.inputs)) {
    throw InternalError(DescribeNode(program_, index) + ": the view is not where its base is");
  }
}

void CudaSchedule::BindCopyStart(int index) {
  const Node& node = program_.nodes()[index];
  const TensorId from = node.inputs[0], to = node.outputs[0];
  const Place source = program_.tensor(from).place, target = program_.tensor(to).place;
  CudaCopy copy;
  copy.to = program_.Root(to);
  copy.target = Ref(node, to).data;
  copy.source = Ref(node, from).data;
  copy.bytes = static_cast<size_t>(program_.tensor(to).bytes());
  if (source != target && !copies_in_order_) {
    copy.stream = target == Place::kHost ? kToHost : kToDevice;
  }
  CudaItem item;
  item.kind = CudaItem::Kind::kCopyStart;
  item.nodes = {index};
  item.copy = copies_.size();
  copies_.push_back(std::move(copy));
  items_.push_back(std::move(item));
}

void CudaSchedule::BindCopyDone(int index) {
  const TensorId root = program_.Root(program_.nodes()[index].inputs[0]);
  const auto started = std::find_if(copies_.rbegin(), copies_.rend(),
                                    [&](const CudaCopy& copy) { return copy.to == root; });
  if (started == copies_.rend()) {
    throw InternalError(DescribeNode(program_, index) + ": the copy was not started");
  }
  CudaItem item;
  item.kind = CudaItem::Kind::kCopyDone;
  item.nodes = {index};
  item.copy = static_cast<size_t>(copies_.rend() - started) - 1;
  items_.push_back(std::move(item));
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
  const int64_t wanted = ops::CudaWorkspaceBytes(program_.CallOf(node).get());
  if (wanted > workspace_bytes) {
    throw InternalError(fmt::format("{}: workspace of {} bytes, but the CUDA kernel wants {}",
                                    DescribeNode(program_, index), workspace_bytes, wanted));
  }
  contexts_.push_back(ops::CudaContext{
      {*node.op, inputs, outputs, node.attributes, workspace.data, workspace_bytes},
      compute_,
      libraries_,
      communicators_});

  Touched touched = TouchedBy(node);
  const bool joins = kernel->run_group != nullptr && !items_.empty() &&
                     items_.back().kernel == kernel && group_.Independent(touched);
  if (joins) {
    items_.back().nodes.push_back(index);
    group_.Add(touched);
    return;
  }
  CudaItem item;
  item.nodes = {index};
  item.kernel = kernel;
  item.first_context = contexts_.size() - 1;
  items_.push_back(std::move(item));
  group_ = std::move(touched);
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
