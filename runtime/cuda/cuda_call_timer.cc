#include "runtime/cuda/cuda_call_timer.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <vector>

#include "base/bytes.h"
#include "gpu/check.h"
#include "gpu/first_device.h"
#include "gpu/libraries.h"
#include "ops/cuda_kernel.h"
#include "ops/cuda_workspace.h"
#include "runtime/call_arguments.h"
#include "runtime/cuda/cuda_fill.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/cuda_recording.h"

namespace plimsoll::runtime {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;
using graph::TensorType;

// Bytes accessed between two uses of the same arguments: more than the L2 cache holds.
constexpr int64_t kBetweenUses = int64_t{160} << 20;
constexpr int64_t kMostSets = 8;

constexpr int64_t kArgumentAlignment = 256;

// Stand-ins in scratch memory for the arguments of a node's call, to time its kernel on its own.
// Arguments don't overlap, except that an output which the program writes over an input has the
// input's address (call_arguments.h).
struct StandIns {
  std::vector<ops::TensorRef> inputs, outputs;
  void* workspace = nullptr;

  // Bytes of scratch memory for a node's arguments.
  static int64_t Bytes(const graph::Program& program, const graph::Node& node,
                       int64_t workspace_bytes) {
    int64_t bytes = RoundUp(workspace_bytes, kArgumentAlignment) + kArgumentAlignment;
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (TensorId id : *ids) {
        if (id != kNoTensor) bytes += RoundUp(program.tensor(id).bytes(), kArgumentAlignment);
      }
    }
    return bytes;
  }

  StandIns(const graph::Program& program, const graph::Node& node, int64_t workspace_bytes,
           std::byte* scratch) {
    const auto take = [&](int64_t bytes) {
      std::byte* data = scratch;
      scratch += RoundUp(bytes, kArgumentAlignment);
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
      ref = {
          input >= 0 ? inputs[static_cast<size_t>(input)].data : take(program.tensor(id).bytes()),
          program.tensor(id).type};
    }
    workspace = take(workspace_bytes);
  }
};

}  // namespace

struct CudaCallTimer::Impl {
  struct Current {
    Current() { gpu::UseFirstDevice(); }
  };
  Current current;  // the first member: others need a context
  gpu::Libraries libraries;
  CudaStream stream;
  CudaEvent begin{CudaEvent::Kind::kTime}, end{CudaEvent::Kind::kTime};

  // Fills integers with ids below `id_bound`. Scalars and pairs (counters, seeds and flags) become
  // 1, and 8-bit codes random numbers. Floats are not changed. `positions`: see HasPositions.
  void FillWhole(const ops::TensorRef& ref, int32_t id_bound, bool positions) {
    const int64_t bytes = ref.type.bytes();
    if (ref.data == nullptr || bytes == 0 || graph::IsFloat(ref.type.dtype)) return;
    if (graph::IsFloat8(ref.type.dtype)) {
      FillPlausible(static_cast<std::byte*>(ref.data), bytes, ref.type.dtype, 0, stream.get());
    } else if (ref.type.dtype == DType::kInt32) {
      const int64_t count = ref.type.shape.elements();
      std::vector<int32_t> ids(static_cast<size_t>(count), 1);
      for (int64_t i = 0; count > 2 && i < count; ++i) {
        ids[i] = static_cast<int32_t>((static_cast<uint32_t>(i) * 2654435761u >> 4) %
                                      static_cast<uint32_t>(id_bound));
      }
      if (positions) FillPositions(ids.data(), ref.type.shape);
      gpu::Check(cudaMemcpyAsync(ref.data, ids.data(), bytes, cudaMemcpyHostToDevice, stream.get()),
                 "cudaMemcpyAsync");
      gpu::Check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    } else {
      gpu::Check(cudaMemsetAsync(ref.data, 1, bytes, stream.get()), "cudaMemsetAsync");
    }
  }

  template <typename Body>
  double Elapsed(Body&& body) {
    begin.Record(stream.get());
    body();
    end.Record(stream.get());
    end.Wait();
    return 1e-6 * end.MicrosecondsSince(begin);
  }

  double Time(const Program& program, const Node& node, int64_t most_bytes) {
    const ops::CudaKernel* kernel = ops::FindCudaKernel(node.op->name);
    if (kernel == nullptr) return -1;
    const int64_t workspace_bytes =
        ops::CudaWorkspaceBytes(program.CallOf(node).get(), libraries.capability());
    const int64_t set_bytes = StandIns::Bytes(program, node, workspace_bytes);
    if (set_bytes > most_bytes) return -1;
    const int64_t sets = std::clamp<int64_t>((kBetweenUses + set_bytes - 1) / set_bytes, 1,
                                             std::min(kMostSets, most_bytes / set_bytes));
    const CudaBuffer scratch(CudaBuffer::Kind::kDevice, sets * set_bytes, "timing an op");
    // Each tensor gets different values: logits computed from weights equal to the input would be
    // far from plausible.
    FillPlausible(scratch.data(), scratch.bytes(), DType::kBFloat16, 0, stream.get());
    std::vector<StandIns> arguments;
    std::vector<ops::CudaContext> contexts;
    arguments.reserve(static_cast<size_t>(sets));
    const int32_t id_bound = IdBound(program, node);
    for (int64_t i = 0; i < sets; ++i) {
      const StandIns& a =
          arguments.emplace_back(program, node, workspace_bytes, scratch.data() + i * set_bytes);
      for (size_t k = 0; k < a.inputs.size(); ++k) {
        FillWhole(a.inputs[k], id_bound, HasPositions(node, k));
      }
      contexts.push_back(
          {{*node.op, a.inputs, a.outputs, node.attributes, a.workspace, workspace_bytes},
           stream.get(),
           libraries});
    }
    // Loads kernels and chooses algorithms here, before the timing.
    if (kernel->prepare != nullptr) {
      FillOperands(contexts.front(), stream.get());
      kernel->prepare(contexts.front());
    }
    for (const ops::CudaContext& context : contexts) kernel->run(context);
    const double once = Elapsed([&] { kernel->run(contexts.front()); });
    constexpr double kSeconds = 2e-3;
    constexpr int kMost = 64;
    const int runs =
        std::clamp(static_cast<int>(std::lround(kSeconds / std::max(once, 1e-6))), 3, kMost);
    const auto enqueue = [&] {
      for (int i = 0; i < runs; ++i) kernel->run(contexts[i % contexts.size()]);
    };
    const auto recording = CudaRecording::Make(stream.get(), enqueue);
    const auto launch = [&] { recording ? recording->Launch(stream.get()) : enqueue(); };
    // Replays for a while first: in a training step, a GPU is at its power limit and runs slower
    // than a rested one.
    constexpr double kSustained = 40e-3;
    constexpr int kReplays = 3;
    const double replay = Elapsed(launch);
    const int warm = static_cast<int>(std::min(kSustained / std::max(replay, 1e-4), 200.0));
    for (int i = 0; i < warm; ++i) launch();
    std::vector<double> seconds;
    for (int i = 0; i < kReplays; ++i) {
      seconds.push_back(Elapsed(launch) / runs);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[kReplays / 2];
  }
};

CudaCallTimer::CudaCallTimer() : impl_(std::make_unique<Impl>()) {}
CudaCallTimer::~CudaCallTimer() = default;

double CudaCallTimer::Time(const Program& program, const Node& node, int64_t most_bytes) {
  try {
    return impl_->Time(program, node, most_bytes);
  } catch (const std::exception&) {
    cudaStreamSynchronize(impl_->stream.get());
    (void)cudaGetLastError();  // clears the error, so that the next call doesn't report it
    return -1;
  }
}

bool CudaCallTimer::Grouped(const Node& node) {
  const ops::CudaKernel* kernel = ops::FindCudaKernel(node.op->name);
  return kernel != nullptr && kernel->run_group != nullptr;
}

}  // namespace plimsoll::runtime
