// Runs a program on the CPU. Every node is bound once to its kernel and to addresses in the arena.
// A run is then a loop over the nodes without allocations or look-ups.
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
  // `host_arena` may be nullptr if no tensor is placed on the host. The program, the arenas and the
  // pool must outlive the executor; the layout is copied. Throws InternalError if an op has no CPU
  // kernel, or if a tensor lies outside its arena.
  CpuExecutor(const graph::Program& program, const Layout& layout, Arena& arena, Arena* host_arena,
              ThreadPool& pool, ExecutorOptions options = {});
  // Runs on other memory, which must outlive the executor.
  CpuExecutor(const graph::Program& program, TensorMemory& memory, ThreadPool& pool,
              ExecutorOptions options = {});
  ~CpuExecutor() override;

  void Run() override;
  std::byte* address(graph::TensorId id) const override;
  int64_t runs() const override;
  int64_t used_bytes() const override;
  const std::vector<int64_t>& node_nanoseconds() const override;
  void ResetProfile() override;

  // The memory of a tensor that the host may access between runs: a persistent tensor, an input or
  // a metric. Throws InternalError for any other or unknown tensor.
  void* address(std::string_view name) const;
  const graph::TensorType& type(std::string_view name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::runtime
