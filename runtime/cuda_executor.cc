#include "runtime/cuda_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ops/cuda_kernel.h"
#include "ops/cuda_workspace.h"
#include "runtime/cuda_instruments.h"

namespace plimsoll::runtime {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Place;
using graph::Program;
using graph::TensorId;

enum Stream { kCompute = 0, kToHost = 1, kToDevice = 2 };

// A copy between the places, from its start to its end.
struct Copy {
  TensorId to = kNoTensor;  // the tensor that owns the memory
  void* target = nullptr;
  const void* source = nullptr;
  size_t bytes = 0;
  Stream stream = kCompute;
  CudaEvent may_start, has_ended;
};

// What is enqueued at once: some nodes of one op, or one half of a copy.
struct Item {
  enum class Kind { kKernels, kCopyStart, kCopyDone };
  Kind kind = Kind::kKernels;
  std::vector<int> nodes;  // in the order of the program
  const ops::CudaKernel* kernel = nullptr;
  size_t first_context = 0;
  size_t copy = 0;
};

// Bytes that nodes of a group read and write.
struct Touched {
  using Ranges = std::vector<RangesByNode::Range>;
  Ranges reads, writes;

  static bool Meet(const Ranges& a, const Ranges& b) {
    for (const auto& x : a) {
      for (const auto& y : b) {
        if (x.begin < y.begin + y.bytes && y.begin < x.begin + x.bytes) return true;
      }
    }
    return false;
  }
  // Can `other` run at the same time?
  bool Independent(const Touched& other) const {
    return !Meet(writes, other.reads) && !Meet(writes, other.writes) && !Meet(reads, other.writes);
  }
  void Add(const Touched& other) {
    reads.insert(reads.end(), other.reads.begin(), other.reads.end());
    writes.insert(writes.end(), other.writes.begin(), other.writes.end());
  }
};

}  // namespace

struct CudaExecutor::Impl {
  Impl(const Program& p, const Layout& l, ArenaBases b, const CudaStreams& s, gpu::Libraries& libs,
       ExecutorOptions o);
  ~Impl() {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }

  void Bind(int index);
  void BindCopyStart(int index);
  void BindCopyDone(int index);
  void BindKernel(int index);
  Touched TouchedBy(const Node& node) const;

  cudaStream_t stream(Stream which) const;
  template <typename Body>
  void WithNode(int node, Body&& body) const;
  void Enqueue(const Item& item);
  void PoisonBefore(const Item& item);
  void PoisonAfter(const Item& item);
  void EnqueueCopy(const Copy& copy, const Item& item);
  void EnqueueAll();
  void RunInstrumented();
  void Collect() const;
  Stream StreamOf(const Item& item) const {
    return item.kind == Item::Kind::kCopyStart ? copies[item.copy].stream : kCompute;
  }

  const Program& program;
  const Layout layout;
  const ExecutorOptions options;
  const ArenaBases bases;
  const CudaStreams& streams;
  gpu::Libraries& libraries;
  // Instruments that look at what a node has written want it to be there.
  const bool copies_in_order;

  std::vector<ops::TensorRef> refs;        // arguments of all nodes; contexts point into it
  std::vector<ops::CudaContext> contexts;  // of nodes with kernels
  std::vector<Copy> copies;
  std::vector<Item> items;
  Touched group;  // of the last item
  cudaGraphExec_t graph = nullptr;

  std::optional<CudaPoison> poison;
  std::optional<CudaArenaMeter> meter;
  std::optional<CudaFiniteCheck> finite;

  // Of the profile: the start of the run, then start and end of each item.
  std::vector<CudaEvent> times;
  mutable bool uncollected = false;
  mutable std::vector<int64_t> nanoseconds;
  mutable std::vector<NodeTime> last_times;
  int64_t runs = 0;
};

CudaExecutor::Impl::Impl(const Program& p, const Layout& l, ArenaBases b, const CudaStreams& s,
                         gpu::Libraries& libs, ExecutorOptions o)
    : program(p),
      layout(l),
      options(o),
      bases(b),
      streams(s),
      libraries(libs),
      copies_in_order(o.check_arena || o.check_finite),
      nanoseconds(p.nodes().size(), 0) {
  size_t arguments = 0;
  for (const Node& node : program.nodes()) arguments += node.inputs.size() + node.outputs.size();
  refs.reserve(arguments);  // neither moves: contexts point into it, groups are spans of these
  contexts.reserve(program.nodes().size());
  for (size_t n = 0; n < program.nodes().size(); ++n) Bind(static_cast<int>(n));
  if (options.poison) poison.emplace(program, layout, bases);
  if (options.check_arena) meter.emplace(program, layout, bases);
  if (options.check_finite) finite.emplace(program, layout, bases);
  if (options.profile) {
    for (size_t i = 0; i < 2 * items.size() + 1; ++i) times.emplace_back(CudaEvent::Kind::kTime);
  }
}

void CudaExecutor::Impl::Bind(int index) {
  const Node& node = program.nodes()[index];
  if (node.op->name == "copy_start") return BindCopyStart(index);
  if (node.op->name == "copy_done") return BindCopyDone(index);
  if (!node.op->view) return BindKernel(index);
  // No work, as long as the bytes really are the same.
  const auto data = [&](const std::vector<TensorId>& ids) {
    return ids.empty() ? nullptr : RefOf(program, layout, bases, node, ids[0]).data;
  };
  if (data(node.outputs) == nullptr || data(node.outputs) != data(node.inputs)) {
    throw InternalError(DescribeNode(program, index) + ": the view is not where its base is");
  }
}

void CudaExecutor::Impl::BindCopyStart(int index) {
  const Node& node = program.nodes()[index];
  const TensorId from = node.inputs[0], to = node.outputs[0];
  const Place source = program.tensor(from).place, target = program.tensor(to).place;
  Copy copy;
  copy.to = program.Root(to);
  copy.target = RefOf(program, layout, bases, node, to).data;
  copy.source = RefOf(program, layout, bases, node, from).data;
  copy.bytes = static_cast<size_t>(program.tensor(to).bytes());
  if (source != target && !copies_in_order)
    copy.stream = target == Place::kHost ? kToHost : kToDevice;
  Item item;
  item.kind = Item::Kind::kCopyStart;
  item.nodes = {index};
  item.copy = copies.size();
  copies.push_back(std::move(copy));
  items.push_back(std::move(item));
}

void CudaExecutor::Impl::BindCopyDone(int index) {
  const TensorId root = program.Root(program.nodes()[index].inputs[0]);
  const auto started = std::find_if(copies.rbegin(), copies.rend(),
                                    [&](const Copy& copy) { return copy.to == root; });
  if (started == copies.rend()) {
    throw InternalError(DescribeNode(program, index) + ": the copy was not started");
  }
  Item item;
  item.kind = Item::Kind::kCopyDone;
  item.nodes = {index};
  item.copy = static_cast<size_t>(copies.rend() - started) - 1;
  items.push_back(std::move(item));
}

void CudaExecutor::Impl::BindKernel(int index) {
  const Node& node = program.nodes()[index];
  const ops::CudaKernel* kernel = ops::FindCudaKernel(node.op->name);
  if (kernel == nullptr) {
    throw InternalError(DescribeNode(program, index) + ": the op has no CUDA kernel");
  }
  const size_t first = refs.size();
  for (TensorId id : node.inputs) refs.push_back(RefOf(program, layout, bases, node, id));
  for (TensorId id : node.outputs) refs.push_back(RefOf(program, layout, bases, node, id));
  const std::span<const ops::TensorRef> inputs(refs.data() + first, node.inputs.size());
  const std::span<const ops::TensorRef> outputs(refs.data() + first + node.inputs.size(),
                                                node.outputs.size());
  const ops::TensorRef workspace = RefOf(program, layout, bases, node, node.workspace);
  const int64_t workspace_bytes = node.workspace == kNoTensor ? 0 : workspace.type.bytes();
  const int64_t wanted = ops::CudaWorkspaceBytes(program.CallOf(node).get());
  if (wanted > workspace_bytes) {
    throw InternalError(fmt::format("{}: workspace of {} bytes, but the CUDA kernel wants {}",
                                    DescribeNode(program, index), workspace_bytes, wanted));
  }
  contexts.push_back(ops::CudaContext{*node.op, inputs, outputs, node.attributes, workspace.data,
                                      workspace_bytes, streams.compute.get(), libraries});

  Touched touched = TouchedBy(node);
  const bool joins = kernel->run_group != nullptr && !items.empty() &&
                     items.back().kernel == kernel && group.Independent(touched);
  if (joins) {
    items.back().nodes.push_back(index);
    group.Add(touched);
    return;
  }
  Item item;
  item.nodes = {index};
  item.kernel = kernel;
  item.first_context = contexts.size() - 1;
  items.push_back(std::move(item));
  group = std::move(touched);
}

Touched CudaExecutor::Impl::TouchedBy(const Node& node) const {
  Touched touched;
  const auto add = [&](Touched::Ranges& ranges, TensorId id) {
    if (id == kNoTensor) return;
    const ops::TensorRef ref = RefOf(program, layout, bases, node, id);
    ranges.push_back({static_cast<std::byte*>(ref.data), static_cast<size_t>(ref.type.bytes())});
  };
  for (TensorId id : node.inputs) add(touched.reads, id);
  for (TensorId id : node.outputs) add(touched.writes, id);
  add(touched.writes, node.workspace);
  return touched;
}

cudaStream_t CudaExecutor::Impl::stream(Stream which) const {
  switch (which) {
    case kToHost:
      return streams.to_host.get();
    case kToDevice:
      return streams.to_device.get();
    default:
      return streams.compute.get();
  }
}

template <typename Body>
void CudaExecutor::Impl::WithNode(int node, Body&& body) const {
  try {
    body();
  } catch (const UserError& error) {
    throw UserError(fmt::format("{} [{}]", error.what(), DescribeNode(program, node)),
                    error.code());
  } catch (const std::exception& error) {
    throw InternalError(fmt::format("{}: {}", DescribeNode(program, node), error.what()));
  }
}

void CudaExecutor::Impl::EnqueueCopy(const Copy& copy, const Item& item) {
  const cudaStream_t on = stream(copy.stream);
  if (copy.stream == kCompute) {
    if (item.kind == Item::Kind::kCopyStart && copy.bytes > 0) {
      gpu::Check(cudaMemcpyAsync(copy.target, copy.source, copy.bytes, cudaMemcpyDefault, on),
                 "cudaMemcpyAsync");
    }
    return;
  }
  if (item.kind == Item::Kind::kCopyDone) {
    copy.has_ended.MakeWait(streams.compute.get());
    return;
  }
  copy.may_start.Record(streams.compute.get());
  copy.may_start.MakeWait(on);
  if (copy.bytes > 0) {
    gpu::Check(cudaMemcpyAsync(copy.target, copy.source, copy.bytes, cudaMemcpyDefault, on),
               "cudaMemcpyAsync");
  }
  copy.has_ended.Record(on);
}

void CudaExecutor::Impl::Enqueue(const Item& item) {
  WithNode(item.nodes.front(), [&] {
    if (item.kind != Item::Kind::kKernels) {
      EnqueueCopy(copies[item.copy], item);
    } else if (item.nodes.size() == 1) {
      item.kernel->run(contexts[item.first_context]);
    } else {
      item.kernel->run_group({contexts.data() + item.first_context, item.nodes.size()});
    }
  });
}

void CudaExecutor::Impl::PoisonBefore(const Item& item) {
  if (!poison) return;
  for (int node : item.nodes) poison->BeforeNode(node, streams.compute.get());
}

void CudaExecutor::Impl::PoisonAfter(const Item& item) {
  if (!poison) return;
  for (int node : item.nodes) poison->AfterNode(node, streams.compute.get());
}

void CudaExecutor::Impl::EnqueueAll() {
  for (const Item& item : items) {
    PoisonBefore(item);
    Enqueue(item);
    PoisonAfter(item);
  }
}

void CudaExecutor::Impl::RunInstrumented() {
  const cudaStream_t compute = streams.compute.get();
  Collect();  // the run before: its events are recorded anew
  if (meter) meter->BeforeRun(compute);
  if (finite) finite->BeforeRun(compute);
  if (options.profile) times[0].Record(compute);
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const Stream which = StreamOf(item);
    PoisonBefore(item);
    if (meter) {
      for (int node : item.nodes) meter->BeforeNode(node, compute);
    }
    if (options.profile && which == kCompute) times[2 * i + 1].Record(compute);
    if (options.profile && which != kCompute) {
      // A copy's time begins when it may: not while its stream still waits for nodes before it.
      copies[item.copy].may_start.Record(compute);
      copies[item.copy].may_start.MakeWait(stream(which));
      times[2 * i + 1].Record(stream(which));
    }
    Enqueue(item);
    if (options.profile) times[2 * i + 2].Record(stream(which));
    for (int node : item.nodes) {
      if (finite) finite->AfterNode(node, compute);
      if (meter) meter->AfterNode(node, compute);
    }
    PoisonAfter(item);  // when all have seen what the node wrote
  }
  uncollected = options.profile;
  if (finite) finite->AfterRun(compute);
  if (meter) meter->AfterRun(compute);
}

// Waits for the last run and adds its times.
void CudaExecutor::Impl::Collect() const {
  if (!uncollected) return;
  uncollected = false;
  gpu::Check(cudaStreamSynchronize(streams.to_host.get()), "cudaStreamSynchronize");
  gpu::Check(cudaStreamSynchronize(streams.to_device.get()), "cudaStreamSynchronize");
  gpu::Check(cudaStreamSynchronize(streams.compute.get()), "cudaStreamSynchronize");
  last_times.clear();
  for (size_t i = 0; i < items.size(); ++i) {
    NodeTime time;
    time.node = items[i].nodes.front();
    time.nodes = items[i].nodes.back() - items[i].nodes.front() + 1;
    time.start_us = times[2 * i + 1].MicrosecondsSince(times[0]);
    time.end_us = times[2 * i + 2].MicrosecondsSince(times[0]);
    time.stream = StreamOf(items[i]);
    last_times.push_back(time);
    // Of nodes that run together each has the same share.
    const double each = 1e3 * (time.end_us - time.start_us) / double(items[i].nodes.size());
    for (int node : items[i].nodes) nanoseconds[node] += static_cast<int64_t>(each);
  }
}

CudaExecutor::CudaExecutor(const Program& program, const Layout& layout, ArenaBases bases,
                           const CudaStreams& streams, gpu::Libraries& libraries,
                           ExecutorOptions options)
    : Executor(program),
      impl_(std::make_unique<Impl>(program, layout, bases, streams, libraries, options)) {}

CudaExecutor::~CudaExecutor() = default;

void CudaExecutor::Prepare() {
  for (const Item& item : impl_->items) {
    if (item.kernel == nullptr || item.kernel->prepare == nullptr) continue;
    for (size_t i = 0; i < item.nodes.size(); ++i) {
      impl_->WithNode(item.nodes[i],
                      [&] { item.kernel->prepare(impl_->contexts[item.first_context + i]); });
    }
  }
}

void CudaExecutor::Record() {
  Impl& self = *impl_;
  const cudaStream_t compute = self.streams.compute.get();
  self.EnqueueAll();
  gpu::Check(cudaStreamSynchronize(compute), "the first run of a program");
  const ExecutorOptions& o = self.options;
  if (!o.graphs || o.check_arena || o.check_finite || o.profile) return;
  gpu::Check(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  cudaGraph_t recorded = nullptr;
  try {
    self.EnqueueAll();
  } catch (...) {
    cudaStreamEndCapture(compute, &recorded);
    if (recorded != nullptr) cudaGraphDestroy(recorded);
    cudaGetLastError();
    throw;
  }
  gpu::Check(cudaStreamEndCapture(compute, &recorded), "cudaStreamEndCapture");
  const cudaError_t status = cudaGraphInstantiate(&self.graph, recorded, 0);
  cudaGraphDestroy(recorded);
  gpu::Check(status, "cudaGraphInstantiate");
  gpu::Check(cudaGraphUpload(self.graph, compute), "cudaGraphUpload");
}

void CudaExecutor::Run() {
  Impl& self = *impl_;
  const ExecutorOptions& o = self.options;
  if (self.graph != nullptr) {
    gpu::Check(cudaGraphLaunch(self.graph, self.streams.compute.get()), "cudaGraphLaunch");
  } else if (o.check_arena || o.check_finite || o.profile) {
    self.RunInstrumented();
  } else {
    self.EnqueueAll();
  }
  ++self.runs;
}

int64_t CudaExecutor::runs() const { return impl_->runs; }

int64_t CudaExecutor::used_bytes() const {
  if (!impl_->meter) throw InternalError("used_bytes() needs the option check_arena");
  return impl_->meter->used_bytes();
}

const std::vector<int64_t>& CudaExecutor::node_nanoseconds() const {
  impl_->Collect();
  return impl_->nanoseconds;
}

std::vector<NodeTime> CudaExecutor::node_times() const {
  impl_->Collect();
  return impl_->last_times;
}

void CudaExecutor::ResetProfile() {
  impl_->Collect();
  std::fill(impl_->nanoseconds.begin(), impl_->nanoseconds.end(), 0);
  impl_->runs = 0;
}

int64_t CudaExecutor::launches() const { return static_cast<int64_t>(impl_->items.size()); }

}  // namespace plimsoll::runtime
