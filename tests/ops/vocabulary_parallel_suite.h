// The tests of ops whose vocabulary is split among ranks, the same on all devices
// (vocabulary_parallel_suite.cc): compared with the op on the whole table. They run on as many
// ranks as the launcher started. Each test program defines where the ops run:
//
//   std::unique_ptr<OpBed> plimsoll::ops::MakeOpBed(runtime::World& world) { … }
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "graph/dtype.h"
#include "runtime/ranks/world.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {

class OpBed {
 public:
  virtual ~OpBed() = default;

  // Why the tests cannot run here; empty when they can. The same on all ranks.
  virtual std::string WhyNot() { return ""; }
  // Outputs of one run on this rank's device; the axis "tensor" has all ranks.
  virtual std::vector<TestTensor> Run(const std::string& op,
                                      const std::vector<const TestTensor*>& inputs,
                                      const graph::Attributes& attributes) = 0;
  // By how much the device rounds the operands of the loss's products further than the type does:
  // the relative error of gradients.
  virtual double LossRounding(graph::DType) { return 0; }
};

std::unique_ptr<OpBed> MakeOpBed(runtime::World& world);

inline graph::Attributes SplitByTensorAxis() { return {{"axis", std::string("tensor")}}; }

// This rank's rows of a table.
TestTensor ShardOf(const TestTensor& table);

// Operands of the loss, the same on all ranks. Logits have the magnitude of `spread`; every fifth
// target is ignored, the others are spread over the vocabulary.
struct LossProblem {
  LossProblem(graph::DType dtype, int64_t rows, int64_t vocabulary, int64_t width,
              double spread = 3);

  TestTensor x, weight, targets, scale, dloss, acc;
};

}  // namespace plimsoll::ops
