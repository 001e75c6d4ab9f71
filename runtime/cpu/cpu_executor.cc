#include "runtime/cpu/cpu_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/error.h"
#include "runtime/cpu/cpu_instruments.h"
#include "runtime/node_ranges.h"

namespace plimsoll::runtime {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;

// A node with everything needed to run it.
struct BoundNode {
  int index;
  size_t first_ref;  // index in Impl::refs of the node's first argument
  void (*run)(const ops::CpuContext&);
  ops::CpuContext context;
};

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct CpuExecutor::Impl {
  Impl(const Program& p, std::optional<ArenaTensors> a, TensorMemory* m, ThreadPool& pool,
       ExecutorOptions o);

  ops::TensorRef Ref(TensorId id) const;
  void Bind(int index, ThreadPool& pool);
  const Tensor& HostVisible(std::string_view name, TensorId& id) const;

  void RunNode(const BoundNode& node);
  void RunPlain();
  void RunWatched();
  void Resolve(BoundNode& node);

  const Program& program;
  std::optional<ArenaTensors> arenas;
  TensorMemory& memory;
  const ExecutorOptions options;
  std::vector<ops::TensorRef> refs;  // arguments of all nodes; contexts point into it
  std::vector<BoundNode> nodes;
  std::optional<Poison> poison;
  std::optional<ArenaMeter> meter;
  std::vector<int64_t> nanoseconds;
  int64_t runs = 0;
};

CpuExecutor::Impl::Impl(const Program& p, std::optional<ArenaTensors> a, TensorMemory* m,
                        ThreadPool& pool, ExecutorOptions o)
    : program(p),
      arenas(std::move(a)),
      memory(arenas ? *arenas : *m),
      options(o),
      nanoseconds(p.nodes().size(), 0) {
  CheckInstruments(memory, program, options);
  size_t arguments = 0;
  for (const Node& node : program.nodes()) arguments += node.inputs.size() + node.outputs.size();
  refs.reserve(arguments);  // prevents reallocation: contexts point into refs
  nodes.reserve(program.nodes().size());
  for (size_t n = 0; n < program.nodes().size(); ++n) Bind(static_cast<int>(n), pool);
  if (options.poison) poison.emplace(program, arenas->layout(), arenas->bases());
  if (options.check_arena) meter.emplace(program, arenas->layout(), arenas->bases());
}

ops::TensorRef CpuExecutor::Impl::Ref(TensorId id) const {
  if (id == kNoTensor) return {};
  return {memory.address(id), program.tensor(id).type};
}

void CpuExecutor::Impl::Bind(int index, ThreadPool& pool) {
  const Node& node = program.nodes()[index];
  if (node.op->view) return;
  const size_t first = refs.size();
  for (TensorId id : node.inputs) refs.push_back(Ref(id));
  for (TensorId id : node.outputs) refs.push_back(Ref(id));
  const std::span<const ops::TensorRef> inputs(refs.data() + first, node.inputs.size());
  const std::span<const ops::TensorRef> outputs(refs.data() + first + node.inputs.size(),
                                                node.outputs.size());
  const ops::CpuKernel* kernel = ops::FindCpuKernel(node.op->name);
  if (kernel == nullptr) {
    throw InternalError(DescribeNode(program, index) + ": the op has no CPU kernel");
  }
  const ops::TensorRef workspace = Ref(node.workspace);
  const int64_t workspace_bytes = node.workspace == kNoTensor ? 0 : workspace.type.bytes();
  if (kernel->workspace != nullptr) {
    const Program::Call call = program.CallOf(node);
    const int64_t wanted = kernel->workspace(call.get(), pool.size());
    if (wanted > workspace_bytes) {
      throw InternalError(fmt::format("{}: workspace of {} bytes, but {} threads want {}",
                                      DescribeNode(program, index), workspace_bytes, pool.size(),
                                      wanted));
    }
  }
  nodes.push_back(
      {index, first, kernel->run,
       ops::CpuContext{{*node.op, inputs, outputs, node.attributes, workspace.data, workspace_bytes,
                        ops::CommunicatorFor(node.attributes, options.communicators)},
                       pool}});
}

void CpuExecutor::Impl::RunNode(const BoundNode& node) {
  try {
    node.run(node.context);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{} [{}]", error.what(), DescribeNode(program, node.index)),
                    error.code());
  } catch (const std::exception& error) {
    throw InternalError(fmt::format("{}: {}", DescribeNode(program, node.index), error.what()));
  }
}

void CpuExecutor::Impl::RunPlain() {
  for (const BoundNode& node : nodes) RunNode(node);
}

// Fills in the current addresses of the node's arguments.
void CpuExecutor::Impl::Resolve(BoundNode& bound) {
  const Node& node = program.nodes()[bound.index];
  const auto address = [&](TensorId id) { return AddressFor(memory, program, bound.index, id); };
  size_t ref = bound.first_ref;
  for (TensorId id : node.inputs) refs[ref++].data = address(id);
  for (TensorId id : node.outputs) refs[ref++].data = address(id);
  bound.context.workspace = address(node.workspace);
}

void CpuExecutor::Impl::RunWatched() {
  memory.BeforeRun();
  if (meter) meter->BeforeRun();
  auto bound = nodes.begin();
  for (int n = 0; n < static_cast<int>(program.nodes().size()); ++n) {
    memory.BeforeNode(n);
    // A node that is not bound is a view, which does no work.
    if (bound != nodes.end() && bound->index == n) {
      if (memory.moves()) Resolve(*bound);
      if (poison) poison->BeforeNode(n);
      if (meter) meter->BeforeNode(n);
      const int64_t start = Now();
      RunNode(*bound);
      if (options.profile) nanoseconds[n] += Now() - start;
      if (options.check_finite) CheckFinite(program, n, arenas->layout(), arenas->bases());
      if (meter) meter->AfterNode(n);
      if (poison) poison->AfterNode(n);
      ++bound;
    }
    memory.AfterNode(n);
  }
  if (meter) meter->AfterRun();
}

const Tensor& CpuExecutor::Impl::HostVisible(std::string_view name, TensorId& id) const {
  id = program.Require(name);
  const Tensor& tensor = program.tensor(id);
  const bool visible = program.tensor(program.Root(id)).persistent || tensor.role == Role::kInput ||
                       tensor.role == Role::kMetric;
  if (!visible) {
    throw InternalError(fmt::format("program '{}': '{}' is a temporary, which only nodes may touch",
                                    program.name(), name));
  }
  return tensor;
}

CpuExecutor::CpuExecutor(const Program& program, const Layout& layout, Arena& arena,
                         Arena* host_arena, ThreadPool& pool, ExecutorOptions options)
    : Executor(program) {
  CheckLayoutFits(program, layout, arena.bytes(), host_arena == nullptr ? 0 : host_arena->bytes());
  const ArenaBases bases{arena.data(), host_arena == nullptr ? nullptr : host_arena->data()};
  impl_ =
      std::make_unique<Impl>(program, ArenaTensors(program, layout, bases), nullptr, pool, options);
}

CpuExecutor::CpuExecutor(const Program& program, TensorMemory& memory, ThreadPool& pool,
                         ExecutorOptions options)
    : Executor(program),
      impl_(std::make_unique<Impl>(program, std::nullopt, &memory, pool, options)) {}

CpuExecutor::~CpuExecutor() = default;

void CpuExecutor::Run() {
  const ExecutorOptions& o = impl_->options;
  if (impl_->memory.moves() || o.poison || o.check_arena || o.profile || o.check_finite) {
    impl_->RunWatched();
  } else {
    impl_->RunPlain();
  }
  ++impl_->runs;
}

std::byte* CpuExecutor::address(TensorId id) const { return impl_->memory.address(id); }

void* CpuExecutor::address(std::string_view name) const {
  TensorId id = kNoTensor;
  impl_->HostVisible(name, id);
  std::byte* const data = address(id);
  if (data == nullptr) {
    throw InternalError(fmt::format("program '{}': '{}' has no memory, since no node touches it",
                                    impl_->program.name(), name));
  }
  return data;
}

const graph::TensorType& CpuExecutor::type(std::string_view name) const {
  TensorId id = kNoTensor;
  return impl_->HostVisible(name, id).type;
}

int64_t CpuExecutor::used_bytes() const {
  if (!impl_->meter) throw InternalError("used_bytes() needs the option check_arena");
  return impl_->meter->used_bytes();
}

const std::vector<int64_t>& CpuExecutor::node_nanoseconds() const { return impl_->nanoseconds; }

int64_t CpuExecutor::runs() const { return impl_->runs; }

void CpuExecutor::ResetProfile() {
  std::fill(impl_->nanoseconds.begin(), impl_->nanoseconds.end(), 0);
  impl_->runs = 0;
}

}  // namespace plimsoll::runtime
