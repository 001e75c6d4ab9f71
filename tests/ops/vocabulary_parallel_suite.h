// The tests of ops whose vocabulary is split among ranks, the same on all devices
// (vocabulary_parallel_suite.cc): against the op with the whole table. They run on as many ranks as
// the launcher started. A program of tests says where ops run:
//
//   std::unique_ptr<OpBed> plimsoll::ops::MakeOpBed(runtime::World& world) { … }
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "graph/dtype.h"
#include "runtime/world.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {

class OpBed {
 public:
  virtual ~OpBed() = default;

  // Why nothing can be tested here; empty when it can. The same on all ranks.
  virtual std::string WhyNot() { return ""; }
  // Outputs of one run on this rank's device, where the axis "tensor" is all ranks.
  virtual std::vector<TestTensor> Run(const std::string& op,
                                      const std::vector<const TestTensor*>& inputs,
                                      const graph::Attributes& attributes) = 0;
};

std::unique_ptr<OpBed> MakeOpBed(runtime::World& world);

inline graph::Attributes SplitByTensorAxis() { return {{"axis", std::string("tensor")}}; }

// The rows of a table that are this rank's.
TestTensor ShardOf(const TestTensor& table);

// Operands of the loss, the same on all ranks. Logits are of the order of `spread`; every fifth
// target is ignored, the others are spread over the vocabulary.
struct LossProblem {
  LossProblem(graph::DType dtype, int64_t rows, int64_t vocabulary, int64_t width,
              double spread = 3);

  TestTensor x, weight, targets, scale, dloss, acc;
};

}  // namespace plimsoll::ops
