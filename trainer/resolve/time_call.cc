// Times single calls of ops' kernels on scratch memory.
#include <algorithm>
#include <chrono>
#include <vector>

#include "base/error.h"
#include "base/low_precision.h"
#include "ops/kernel.h"
#include "runtime/arena.h"
#include "runtime/call_arguments.h"
#include "trainer/resolve/calibration.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;
using graph::TensorType;

constexpr int64_t kAlignment = 64;
// Larger than the last-level cache available to a process.
constexpr int64_t kSweepBytes = 64 << 20;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t WorkspaceBytes(const Program& program, const Node& node, int threads) {
  const ops::CpuKernel* kernel = ops::FindCpuKernel(node.op->name);
  if (kernel == nullptr || kernel->workspace == nullptr) return 0;
  return kernel->workspace(program.CallOf(node).get(), threads);
}

// Numbers in [0.01, 0.11), valid for every kernel: all are positive, as second moments must be.
float Plausible(uint32_t i) {
  return 0.01f + 0.1f * static_cast<float>(i * 2654435761u >> 8) * 0x1p-24f;
}

void Fill(std::byte* data, const TensorType& type, int32_t id_bound) {
  const int64_t count = type.shape.elements();
  const auto fill = [&](auto* elements, auto value) {
    for (int64_t i = 0; i < count; ++i) elements[i] = value(static_cast<uint32_t>(i));
  };
  switch (type.dtype) {
    case DType::kFloat32:
      return fill(reinterpret_cast<float*>(data), Plausible);
    case DType::kFloat64:
      return fill(reinterpret_cast<double*>(data), Plausible);
    case DType::kBFloat16:
      return fill(reinterpret_cast<uint16_t*>(data),
                  [](uint32_t i) { return ToBf16(Plausible(i)); });
    case DType::kFloat16:
      return fill(reinterpret_cast<uint16_t*>(data),
                  [](uint32_t i) { return ToF16(Plausible(i)); });
    case DType::kInt32:
      // Scalars and pairs of integers are counters, seeds, and flags that enable an action.
      return fill(reinterpret_cast<int32_t*>(data), [&](uint32_t i) {
        if (count <= 2) return int32_t{1};
        return static_cast<int32_t>((i * 2654435761u >> 4) % static_cast<uint32_t>(id_bound));
      });
    default:
      return fill(reinterpret_cast<uint8_t*>(data), [](uint32_t i) { return uint8_t(i % 64); });
  }
}

}  // namespace

int64_t ScratchBytes(const Program& program, const Node& node, int threads) {
  int64_t bytes = Aligned(WorkspaceBytes(program, node, threads));
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (TensorId id : *ids) {
      if (id != kNoTensor) bytes += Aligned(program.tensor(id).bytes());
    }
  }
  return bytes;
}

CallTimer::CallTimer(ThreadPool& pool, int64_t most_bytes) : pool_(pool), most_bytes_(most_bytes) {}

// Memory is reused from call to call. A call that needs more frees it first, because touched pages
// stay allocated.
std::byte* CallTimer::Reserve(int64_t bytes) {
  if (memory_ == nullptr || memory_->bytes() < bytes) {
    memory_.reset();
    memory_ = std::make_unique<runtime::Arena>(bytes);
  }
  return memory_->data();
}

void CallTimer::Sweep(std::byte* data, int64_t bytes) {
  constexpr int64_t kGrain = 1 << 20;
  pool_.ParallelFor(bytes, kGrain, [&](int64_t begin, int64_t end) {
    volatile unsigned char* swept = reinterpret_cast<unsigned char*>(data);
    for (int64_t i = begin; i < end; i += kAlignment) swept[i] = swept[i] + 1;
  });
}

double CallTimer::Time(const Program& program, const Node& node) {
  const ops::CpuKernel* kernel = ops::FindCpuKernel(node.op->name);
  if (kernel == nullptr) return -1;
  const int64_t scratch_bytes = ScratchBytes(program, node, pool_.size());
  if (scratch_bytes > most_bytes_) return -1;
  // No more than most_bytes_: the other nodes of a step that fits in it don't touch more, either.
  const int64_t sweep_bytes = std::min(kSweepBytes, most_bytes_ - scratch_bytes);
  std::byte* next = Reserve(scratch_bytes + sweep_bytes);
  std::byte* const sweep = next + scratch_bytes;
  const auto take = [&](int64_t bytes) {
    std::byte* data = next;
    next += Aligned(bytes);
    return data;
  };
  const int32_t id_bound = runtime::IdBound(program, node);
  std::vector<ops::TensorRef> inputs, outputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId id = node.inputs[i];
    ops::TensorRef& ref = inputs.emplace_back();
    if (id == kNoTensor) continue;
    ref = {take(program.tensor(id).bytes()), program.tensor(id).type};
    std::byte* const data = static_cast<std::byte*>(ref.data);
    if (runtime::HasPositions(node, i)) {
      runtime::FillPositions(reinterpret_cast<int32_t*>(data), ref.type.shape);
    } else {
      Fill(data, ref.type, id_bound);
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorId id = node.outputs[i];
    ops::TensorRef& ref = outputs.emplace_back();
    if (id == kNoTensor) continue;
    const int input = runtime::InPlaceInput(program, node, static_cast<int>(i));
    ref = {input >= 0 ? inputs[input].data : take(program.tensor(id).bytes()),
           program.tensor(id).type};
    if (input < 0) Fill(static_cast<std::byte*>(ref.data), ref.type, id_bound);
  }
  const int64_t workspace_bytes = WorkspaceBytes(program, node, pool_.size());
  const ops::CpuContext context{
      {*node.op, inputs, outputs, node.attributes, take(workspace_bytes), workspace_bytes}, pool_};

  using Clock = std::chrono::steady_clock;
  const auto run = [&] {
    Sweep(sweep, sweep_bytes);
    const auto start = Clock::now();
    kernel->run(context);
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  // The first run wakes threads and touches memory; for a long call this time is negligible.
  constexpr double kLong = 0.2;
  constexpr size_t kRuns = 3, kLongRuns = 2;
  std::vector<double> seconds;
  try {
    const double first = run();
    const size_t runs = first >= kLong ? kLongRuns : kRuns;
    if (first >= kLong) seconds.push_back(first);
    while (seconds.size() < runs) seconds.push_back(run());
  } catch (const std::exception&) {
    return -1;
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[(seconds.size() - 1) / 2];
}

}  // namespace plimsoll::trainer
