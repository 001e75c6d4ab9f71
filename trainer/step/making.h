// What a program is made for, and what its passes are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/autodiff.h"
#include "models/model.h"
#include "parallel/tensor_parallel.h"
#include "trainer/step/compile_options.h"

namespace plimsoll::trainer {

enum class ProgramKind { kTrain, kEvaluate, kLogits };

// What a program is made for.
struct Purpose {
  ProgramKind kind;
  models::Objective objective = {};          // of training and evaluation
  graph::Carry carry = graph::Carry::kNone;  // of training
  bool update = false;
  int64_t tokens = 0;   // of logits: of each text
  bool cached = false;  // of logits: earlier tokens of the texts are in the cache
  // Of training and evaluation: tensors that are summed over micro-steps and ranks, the loss first.
  std::vector<std::string> metrics = {};
};

// What a list of passes is made for. Lives no longer than the options.
struct Making {
  const CompileOptions& options;
  Purpose purpose;
  parallel::TensorParallelOptions tensor = {};
  // Of joins and updates: the programs that follow, all of whose passes have run, and the
  // tensors of which each has its own.
  std::vector<const graph::Program*> next = {};
  std::function<bool(const graph::Tensor&)> own = {};

  bool trains() const { return purpose.kind == ProgramKind::kTrain; }
  // Joins: whether all micro-steps of the update come together.
  bool joins_all() const { return static_cast<int64_t>(next.size()) + 1 == options.accumulate; }
};

}  // namespace plimsoll::trainer
