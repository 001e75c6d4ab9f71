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
#include "runtime/layout.h"
#include "runtime/tensor_memory.h"

namespace plimsoll::runtime {

struct CpuExecutorOptions {
  // Fill outputs and workspaces with NaN (all bits set) before they are written, and every
  // temporary when it dies. Results must stay bit-equal.
  bool poison = false;
  // Measure how much of the arena is really used: see used_bytes().
  bool check_arena = false;
  // Collect times: see node_nanoseconds().
  bool profile = false;
  // InternalError at the first node that writes a NaN or an infinity.
  bool check_finite = false;
};

class CpuExecutor {
 public:
  // `host_arena` may be nullptr when no tensor is placed on the host. The program, the arenas and
  // the pool must outlive the executor; the layout is not kept. InternalError when an op has no
  // CPU kernel, or when a tensor lies outside its arena.
  CpuExecutor(const graph::Program& program, const Layout& layout, Arena& arena, Arena* host_arena,
              ThreadPool& pool, CpuExecutorOptions options = {});
  // On memory that comes and goes while the program runs. The memory must outlive the executor. Of
  // the options only `profile` goes with it: the others look at an arena's bytes (InternalError).
  CpuExecutor(const graph::Program& program, TensorMemory& memory, ThreadPool& pool,
              CpuExecutorOptions options = {});
  ~CpuExecutor();
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  // Runs all nodes once. A kernel's failure is thrown on with the op, the node's scope and its
  // tensors (UserError stays UserError, all else becomes InternalError).
  void Run();

  // The memory of a tensor that the host may touch between runs: a persistent one, an input or a
  // metric. InternalError when it is none of these, or unknown.
  void* address(std::string_view name) const;
  const graph::TensorType& type(std::string_view name) const;

  // With options.check_arena, after at least one run: bytes from the arena's start to the end of
  // the highest buffer in which a byte changed, never less than the persistent prefix. Equals the
  // highest offset the plan gives this program. Persistent tensors are not measured: their prefix
  // counts as used. InternalError from Run() when bytes changed that belong to no buffer of this
  // program.
  int64_t used_bytes() const;

  // With options.profile, summed over runs() runs.
  struct OpTime {
    std::string op;
    int64_t nodes = 0;  // in the program
    int64_t nanoseconds = 0;
  };
  const std::vector<int64_t>& node_nanoseconds() const;  // by node index; views stay 0
  std::vector<OpTime> op_times() const;                  // longest first
  int64_t runs() const;
  void ResetProfile();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::runtime
