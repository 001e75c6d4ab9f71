// Runs a program on a GPU. Every node is bound once to its kernel and to addresses in the arenas,
// and the whole program is recorded as one CUDA graph, which a run replays; or the nodes are
// launched one by one (ExecutorOptions::graphs), with the same bits.
//
// Kernels run on one stream in the order of the program. Neighbours that do not depend on one
// another share one launch if their op supports it (ops::CudaKernel::run_group). Copies to and from
// the host and collectives run on their own streams: …_start lets them begin once the nodes before
// it are done, …_done makes the nodes after it wait for them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/libraries.h"
#include "graph/program.h"
#include "runtime/cuda/cuda_inputs.h"
#include "runtime/cuda/cuda_streams.h"
#include "runtime/distinct_calls.h"
#include "runtime/executor.h"
#include "runtime/layout.h"
#include "runtime/node_ranges.h"
#include "runtime/tensor_memory.h"

namespace plimsoll::runtime {

class CudaExecutor : public Executor {
 public:
  // Binds the program and runs nothing. Everything but the layout must outlive the executor. Throws
  // InternalError when an op has no CUDA kernel, a workspace is too small, or a tensor lies outside
  // its arena. A run waits for `concurrent`, if given, before it changes state that this
  // program has not read yet.
  //
  // With `memory`, tensors lie there, and layout and bases only say which nodes share a launch. If
  // it moves, nodes are launched one by one, all on one stream: what a node gives back may serve
  // the next at once.
  CudaExecutor(const graph::Program& program, const Layout& layout, ArenaBases bases,
               const CudaStreams& streams, gpu::Libraries& libraries, ExecutorOptions options,
               const CudaConcurrentProgram* concurrent = nullptr, TensorMemory* memory = nullptr);
  ~CudaExecutor() override;

  // Runs tell when they have read these inputs, to which the program was added, and wait for what
  // is on its way. Call it before Record().
  void ReadInputs(CudaInputs& inputs);

  // Call all of these before the first Run(). Prepare() lets kernels choose their algorithms, and
  // Load() runs them once, so that everything they need is loaded: those of calls that are not
  // among the given ones, which it adds. Both overwrite what the arenas hold. Record() records the
  // program.
  void Prepare(DistinctCalls& prepared);
  void Load(DistinctCalls& loaded);
  void Record();

  void Run() override;
  void Await() const override;
  std::byte* address(graph::TensorId id) const override;
  int64_t runs() const override;
  int64_t used_bytes() const override;
  const std::vector<int64_t>& node_nanoseconds() const override;
  std::vector<NodeTime> node_times() const override;
  void ResetProfile() override;

  // Launches in a run; kernels of nodes that share a launch count once.
  int64_t launches() const;

 protected:
  // A run records these events, by mark, as it passes the marks.
  void PassMarks(std::span<const int> marks, const std::vector<CudaEvent>& passed);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A program that runs on its own streams, concurrently with the runs that are enqueued after it.
// With instruments, which look at all of the arena, it runs alone.
class CudaConcurrentExecutor : public CudaExecutor {
 public:
  CudaConcurrentExecutor(const graph::Program& program, const Layout& layout, ArenaBases bases,
                         const CudaStreams& others, const CudaConcurrentProgram& concurrent,
                         gpu::Libraries& libraries, ExecutorOptions options);
  void Run() override;
  void Await() const override;

 private:
  const CudaStreams& others_;
  const CudaConcurrentProgram& concurrent_;
  const bool alone_;
};

}  // namespace plimsoll::runtime
