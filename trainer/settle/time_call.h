// Times single calls of ops' kernels on scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/thread_pool.h"
#include "graph/program.h"
#include "runtime/arena.h"

namespace plimsoll::trainer {

// Bytes of scratch memory that the node's arguments and workspace take.
int64_t ScratchBytes(const graph::Program& program, const graph::Node& node, int threads);

class CallTimer {
 public:
  // It takes `most_bytes` of memory at most, and gives them back when it goes.
  CallTimer(ThreadPool& pool, int64_t most_bytes);

  // Seconds that the node's kernel takes with small positive numbers, and token ids within the
  // tables. The median of a few runs, fewer if they are long. The caches are swept before each run:
  // in a step, other nodes have run since the arguments were last touched. Negative when the
  // arguments don't fit most_bytes, or the kernel refuses such numbers.
  double Time(const graph::Program& program, const graph::Node& node);

 private:
  std::byte* Reserve(int64_t bytes);
  void Sweep(std::byte* data, int64_t bytes);

  ThreadPool& pool_;
  int64_t most_bytes_;
  // The arguments of a call, and behind them what sweeps the caches.
  std::unique_ptr<runtime::Arena> memory_;
};

}  // namespace plimsoll::trainer
