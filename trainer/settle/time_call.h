// Times single calls of ops' kernels on scratch memory.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "graph/program.h"
#include "runtime/arena.h"

namespace plimsoll::trainer {

// Bytes of scratch memory that timing takes for the node.
int64_t ScratchBytes(const graph::Program& program, const graph::Node& node, int threads);

class CallTimer {
 public:
  explicit CallTimer(ThreadPool& pool);

  // Seconds of the node's kernel, with its arguments in fresh memory: small positive numbers, token
  // ids within the tables. The median of a few runs, fewer of a long one. Before each run the
  // caches are swept: in a step, other nodes have run since the arguments were last touched.
  // Negative when the kernel refuses such numbers.
  double Time(const graph::Program& program, const graph::Node& node);

 private:
  void SweepCaches();

  ThreadPool& pool_;
  runtime::Arena sweep_;
};

}  // namespace plimsoll::trainer
