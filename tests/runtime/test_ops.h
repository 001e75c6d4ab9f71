// Small ops for tests of memory and runtime, with kernels that are cheap but whose results depend
// on every byte they read (test_ops_cuda.cu has the GPU kernels). All float32.
//
//   test_source() {n, seed} → y[n]                 y[i] from seed and i
//   test_mix(x…) {n} → y[n], aux?[7]               reads all of every x; uses a workspace
//   test_unary(x) → y                              in place
//   test_binary(a, b) → y                          in place of either
//   test_update(p, x) → p                          in place, for persistent p
//   test_view(x) → y                               a view
//   test_fail(x) → y                               throws
//   test_lazy(x) → y                               writes y except the last 64 bytes
//   test_stray(x) {beyond} → y                     writes y and one byte that far behind its end
//   test_nan(x) → y                                y[0] is a NaN
//   test_gate(x) → y                               y[0] = x[0], once that is not 1; on a GPU, x on the host
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "graph/builder.h"
#include "graph/program.h"

namespace plimsoll {

graph::TensorType Float32(int64_t n);

struct RandomProgramOptions {
  int nodes = 40;
  int64_t largest = 600;         // elements of a tensor
  uint32_t persistent_seed = 1;  // equal seeds: equal persistent tensors
  int persistent = 4;
  bool host_tensors = false;  // place some temporaries on the host
};

// A valid program of the ops above: chains in place, views, buckets written slice by slice, absent
// outputs, updates of persistent tensors "p.0", "p.1", …, an input slot "slot" and a metric
// "metric" that depends on much of it. Equal seeds give equal programs.
graph::Program RandomProgram(uint32_t seed, const RandomProgramOptions& options = {});

}  // namespace plimsoll
