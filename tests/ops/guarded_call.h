// Runs one op's CPU kernel in memory that shows violations of its contract.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/op.h"
#include "tests/ops/example.h"

namespace plimsoll::ops {

// A tensor with data.
struct HostTensor {
  graph::TensorType type;
  std::vector<std::byte> bytes;

  double value(int64_t i) const;
  void set(int64_t i, double value);
  bool operator==(const HostTensor&) const = default;
};

// A tensor of that type whose bytes are all 0xFF: NaN in floats, -1 in integers.
HostTensor PoisonedTensor(const graph::TensorType& type);

// The inputs of an example; absent ones are empty. Floating values are the same in every dtype,
// rounded to it.
std::vector<std::optional<HostTensor>> MakeInputs(const Example& example, graph::DType dtype);

// The inputs as MakeInputs(example, kFloat64) would give them, but with the values of `inputs`.
std::vector<std::optional<HostTensor>> Widen(const Example& example,
                                             const std::vector<std::optional<HostTensor>>& inputs);

// Normal values of that type from that seed.
HostTensor RandomTensor(const graph::TensorType& type, uint64_t seed);

struct GuardedCall {
  const graph::OpDef& op;
  const graph::Attributes& attributes;
  const std::vector<std::optional<HostTensor>>& inputs;
  std::vector<bool> want = {};                  // outputs to compute; empty: all
  std::vector<graph::InPlacePair> shared = {};  // these pairs share memory
  // With a GPU's driver loaded, whose threads allocate at any time, allocations can't be counted.
  bool count_allocations = true;
};

// The types of all outputs.
std::vector<graph::TensorType> InferTypes(const GuardedCall& call);

// Runs the kernel and returns its outputs (absent: not wanted). Every tensor, and the workspace of
// exactly the declared size, lies between guard bytes in a buffer of its own. Adds a test failure
// when a guard or an unshared input was changed, or memory was allocated.
std::vector<std::optional<HostTensor>> RunKernel(const GuardedCall& call, ThreadPool& pool);

}  // namespace plimsoll::ops
