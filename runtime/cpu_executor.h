// Runs a program on the CPU: every node is bound once to its kernel and to addresses in the arena;
// a run is then a loop over the nodes that allocates nothing and looks nothing up. (With memory
// that comes and goes, addresses are looked up before each node.)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "graph/program.h"
#include "ops/kernel.h"
#include "runtime/arena.h"
#include "runtime/executor.h"
#include "runtime/layout.h"
#include "runtime/tensor_memory.h"

namespace plimsoll::runtime {

class CpuExecutor : public Executor {
 public:
  // `host_arena` may be nullptr when no tensor is placed on the host. The program, the arenas and
  // the pool must outlive the executor; the layout is not kept. InternalError when an op has no
  // CPU kernel, or when a tensor lies outside its arena.
  CpuExecutor(const graph::Program& program, const Layout& layout, Arena& arena, Arena* host_arena,
              ThreadPool& pool, ExecutorOptions options = {});
  // On memory that comes and goes while the program runs. The memory must outlive the executor. Of
  // the options only `profile` goes with it: the others look at an arena's bytes (InternalError).
  CpuExecutor(const graph::Program& program, TensorMemory& memory, ThreadPool& pool,
              ExecutorOptions options = {});
  ~CpuExecutor() override;

  void Run() override;
  int64_t runs() const override;
  int64_t used_bytes() const override;
  const std::vector<int64_t>& node_nanoseconds() const override;
  void ResetProfile() override;

  // The memory of a tensor that the host may touch between runs: a persistent one, an input or a
  // metric. InternalError when it is none of these, or unknown.
  void* address(std::string_view name) const;
  const graph::TensorType& type(std::string_view name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::runtime
