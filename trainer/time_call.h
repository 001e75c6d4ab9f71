// Times one call of an op's kernel on scratch memory.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "graph/program.h"

namespace plimsoll::trainer {

// Bytes of scratch memory that TimeCall takes for the node.
int64_t ScratchBytes(const graph::Program& program, const graph::Node& node, int threads);

// Seconds of the node's kernel, with its arguments in fresh memory: small positive numbers, token
// ids within the tables. The median of a few runs, fewer of a long one. Negative when the kernel
// refuses such numbers.
double TimeCall(const graph::Program& program, const graph::Node& node, ThreadPool& pool);

}  // namespace plimsoll::trainer
