// Runs a program on a GPU. Every node is bound once to its kernel and to addresses in the arenas,
// and the program is recorded as one CUDA graph, which a run replays. Alternatively, nodes are
// launched one by one (ExecutorOptions::launch), with the same bits.
//
// Kernels run on one stream in the order of the program. Neighbours that do not depend on one
// another share one launch if their op supports it (ops::CudaKernel::run_group). Copies to and from
// the host and collectives run on their own streams. A …_start node starts them once the nodes
// before it are done; the nodes after a …_done node wait for them.
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
  // InternalError if an op has no CUDA kernel, a workspace is too small, or a tensor lies outside
  // its arena. If `concurrent` is given, a run waits for that program before it changes state that
  // `concurrent` has not read yet.
  //
  // With `memory`, tensors lie in that memory; layout and bases only decide which nodes share a
  // launch. If `memory` moves tensors, nodes are launched one by one, all on one stream: memory
  // that a node frees may be used by the next node at once.
  CudaExecutor(const graph::Program& program, const Layout& layout, ArenaBases bases,
               const CudaStreams& streams, gpu::Libraries& libraries, ExecutorOptions options,
               const CudaConcurrentProgram* concurrent = nullptr, TensorMemory* memory = nullptr);
  ~CudaExecutor() override;

  // Makes runs report when they have read these inputs, and wait for inputs that are in flight. The
  // program must have been added to `inputs`. Call this before Record().
  void ReadInputs(CudaInputs& inputs);

  // Call all of these before the first Run(). Prepare() lets kernels choose their algorithms.
  // Load() runs kernels once, so that everything they need is loaded. Both skip calls that are in
  // the given set, add all other calls to the set, and overwrite the arenas. Record() records the
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

  // Number of launches in a run; kernels of nodes that share a launch count once.
  int64_t launches() const;

 protected:
  // Makes a run record the event passed[i] when it passes mark i, after node marks[i].
  void PassMarks(std::span<const int> marks, const std::vector<CudaEvent>& passed);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs a program on its own streams, concurrently with the runs that are enqueued after it.
// Instruments read the complete arena, so with them the program runs alone.
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
