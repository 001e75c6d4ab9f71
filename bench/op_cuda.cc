#include <cuda_runtime_api.h>

#include <cmath>

#include "bench/op_device.h"
#include "bench/training.h"
#include "gpu/check.h"
#include "ops/convolution/conv_workspace.h"
#include "ops/cuda/choices/choice_options.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/cuda_recording.h"
#include "tests/ops/cuda_op_runner.h"

namespace plimsoll::bench {
namespace {

using Runners = std::vector<std::unique_ptr<ops::CudaOpRunner>>;  // of a case's calls

constexpr double kUncached = 600e6;             // bytes, more than any GPU's second-level cache has
constexpr double kTiming = 5e3, kWarmUp = 2e5;  // µs
constexpr int kTimings = 15;

void Copy(void* to, const void* from, size_t bytes) {
  gpu::Check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
}

struct Cuda {
  const std::optional<int64_t> workspace;
  gpu::Libraries libraries = {};
  runtime::CudaStream stream{runtime::CudaStream::Priority::kNormal};
  runtime::CudaEvent begin{runtime::CudaEvent::Kind::kTime}, end{runtime::CudaEvent::Kind::kTime};

  // The median of timings under load: a GPU computes faster for a moment after a rest. Sets of
  // operands take turns, so that no cache holds a set until its next turn.
  double Seconds(const OpCase& of) {
    double bytes = 0;
    for (const CaseCall& call : of.calls) bytes += graph::CostOf(TypedCall(call).get()).bytes;
    std::vector<Runners> sets(
        static_cast<size_t>(std::clamp(std::ceil(kUncached / bytes), 1.0, 16.0)));
    for (Runners& set : sets) {
      for (const CaseCall& call : of.calls) set.push_back(Prepared(call));
    }
    const auto enqueue = [&] {
      for (const Runners& set : sets) Enqueue(of.calls[0].example.op, set);
    };
    enqueue();
    const auto recording = runtime::CudaRecording::Make(stream.get(), enqueue);
    const auto time = [&](int runs) {  // µs of each
      begin.Record(stream.get());
      for (int i = 0; i < runs; ++i) recording ? recording->Launch(stream.get()) : enqueue();
      end.Record(stream.get());
      end.Wait();
      return end.MicrosecondsSince(begin) / runs;
    };
    time(1);
    const int runs = std::clamp(static_cast<int>(kTiming / time(1)), 1, 50);
    for (double warm = 0; warm < kWarmUp;) warm += runs * time(runs);
    std::vector<double> times;
    for (int i = 0; i < kTimings; ++i) times.push_back(time(runs));
    return 1e-6 * Median(times) / static_cast<double>(sets.size());
  }

  std::unique_ptr<ops::CudaOpRunner> Prepared(const CaseCall& call) {
    auto runner = RunnerOf<ops::CudaOpRunner, ops::CudaTensor>(call, Copy);
    if (workspace && IsConvolution(call)) {
      // The rest is for a gradient that is staged.
      const int64_t rest =
          runner->workspace_bytes() - ops::ConvWorkspaceLimit(TypedCall(call).get());
      runner->SetWorkspace(*workspace + rest);
    }
    // The stream doesn't wait for the copies of operands.
    gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    runner->Prepare(libraries, stream.get());
    return runner;
  }

  void Enqueue(const std::string& op, const Runners& runners) {
    const auto run_group = ops::FindCudaKernel(op)->run_group;
    std::vector<ops::CudaContext> contexts;
    for (const auto& runner : runners) contexts.push_back(runner->Context(libraries, stream.get()));
    if (contexts.size() > 1 && run_group != nullptr) return run_group(contexts);
    for (const auto& runner : runners) runner->Enqueue(libraries, stream.get());
  }
};

}  // namespace

OpDevice CudaOps(const std::string& products, std::optional<int64_t> workspace) {
  ops::SetChoices({.measure = std::nullopt,
                   .folder = "",
                   .gemm_forms = products != "library",
                   .gemm_library = products != "ours",
                   .warn = {}});
  const std::shared_ptr<Cuda> cuda(new Cuda{workspace});
  return {cuda->libraries.properties().name, runtime::MeasureCeilings(runtime::DeviceKind::kCuda),
          [cuda](const OpCase& of) { return cuda->Seconds(of); }};
}

}  // namespace plimsoll::bench
