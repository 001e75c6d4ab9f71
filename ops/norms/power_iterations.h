// New vectors of a spectral norm (spectral_norm.h), on the host, before a program runs.
#pragma once

#include "base/thread_pool.h"
#include "graph/shape.h"

namespace plimsoll::ops {

// As PyTorch's spectral_norm makes its vectors: how often it iterates when it is made.
inline constexpr int kFirstPowerIterations = 15;

// Makes `count` power iterations of a float32 weight[O,…] from v, and leaves u[O] and v[…]. Their
// numbers do not depend on the number of threads.
void PowerIterations(ThreadPool& pool, const graph::Shape& weight_shape, const float* weight,
                     int count, float* u, float* v);

}  // namespace plimsoll::ops
