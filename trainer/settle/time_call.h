// Times single calls of ops' kernels on scratch memory.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "graph/program.h"
#include "runtime/arena.h"

namespace plimsoll::trainer {

// Bytes of scratch memory that timing the node takes.
int64_t ScratchBytes(const graph::Program& program, const graph::Node& node, int threads);

class CallTimer {
 public:
  explicit CallTimer(ThreadPool& pool);

  // Seconds that the node's kernel takes, with its arguments in fresh memory: small positive
  // numbers, and token ids within the tables. The median of a few runs, fewer if they are long. The
  // caches are swept before each run: in a step, other nodes have run since the arguments were last
  // touched. Negative when the kernel refuses such numbers.
  double Time(const graph::Program& program, const graph::Node& node);

 private:
  void SweepCaches();

  ThreadPool& pool_;
  runtime::Arena sweep_;
};

}  // namespace plimsoll::trainer
