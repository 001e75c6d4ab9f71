// Runs one program, which is bound to its memory once. Each kind of device has its own
// implementation (runtime/device.h makes them).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/program.h"
#include "ops/collectives/axis.h"

namespace plimsoll::runtime {

// How a GPU's executor launches a program. All ways give the same bits.
enum class Launch {
  kRecorded,  // the whole program at once, recorded before the first run
  kByNode,    // node by node; needed on memory that moves and with any instrument but poison
  kAwaited,   // node by node, waiting after each node, so that an error names its node
};

struct ExecutorOptions {
  // Fill outputs and workspaces with NaN (all bits set) before they are written, and every
  // temporary when its lifetime ends. Results must stay bit-equal.
  bool poison = false;
  // Measure how much of the arena is actually used: see used_bytes().
  bool check_arena = false;
  // Collect times: see node_nanoseconds().
  bool profile = false;
  // Stop at the first node that writes a NaN or an infinity, with a UserError naming node and
  // tensor.
  bool check_finite = false;
  Launch launch = Launch::kRecorded;
  // Communicators for the program's collectives; they must outlive the executor.
  ops::AxisCommunicators communicators = {};
};

// When a node ran, on the device's clock.
struct NodeTime {
  int node = 0;         // index in the program
  int nodes = 1;        // number of consecutive nodes run as one
  double start_us = 0;  // since the start of the run
  double end_us = 0;
  // 0: compute, 1: copies to the host, 2: copies to the device; from 3 on: collectives, of one axis
  // of the mesh each.
  int stream = 0;
};

class Executor {
 public:
  explicit Executor(const graph::Program& program) : program_(program) {}
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const graph::Program& program() const { return program_; }

  // Runs all nodes once. On the CPU the nodes are done on return; on a GPU they are enqueued after
  // all earlier work. A kernel's failure is rethrown with the op, the node's scope, its tensors and
  // their shapes (a UserError stays a UserError, any other becomes an InternalError).
  virtual void Run() = 0;

  // Waits until the last run is done. May be called on any thread if the program runs
  // concurrently with others.
  virtual void Await() const {}

  // The address, between runs, of a tensor that the host may access: a persistent tensor, an input
  // or a metric of the program. nullptr if no node uses the tensor.
  virtual std::byte* address(graph::TensorId id) const = 0;

  // Number of runs since the executor was made or since the last ResetProfile().
  virtual int64_t runs() const = 0;

  // With options.check_arena, after at least one run: bytes from the arena's start to the end of
  // the highest buffer in which a byte changed, at least the persistent prefix. The result equals
  // the highest offset that the plan gives this program. Persistent tensors are not measured: their
  // prefix counts as used. Run() throws InternalError if bytes changed that belong to no buffer of
  // this program.
  virtual int64_t used_bytes() const = 0;

  // With options.profile, times summed over runs() runs. Waits for the device if work is enqueued.
  // the time of each node; views stay 0
  virtual const std::vector<int64_t>& node_nanoseconds() const = 0;
  // The times of the nodes of the last run; empty on the CPU.
  virtual std::vector<NodeTime> node_times() const { return {}; }
  virtual void ResetProfile() = 0;

  struct OpTime {
    std::string op;
    int64_t nodes = 0;  // number of this op's nodes in the program
    int64_t nanoseconds = 0;
  };
  std::vector<OpTime> op_times() const;  // sorted by time, longest first

 private:
  const graph::Program& program_;
};

}  // namespace plimsoll::runtime
