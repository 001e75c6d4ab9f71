// The cases of bench/cuda_bandwidth: calls of memory-bound ops at the shapes of real models.
#pragma once

#include <string>
#include <vector>

#include "graph/op.h"

namespace plimsoll::bench {

enum class Fill {
  kNormal,    // standard normal
  kPositive,  // uniform in [0.5, 1.5)
  kTokens,    // i32 in [0, limit), few of them frequent as in text: log-uniform
  kRng,       // seed and micro-step
  kOne,       // 1, in its type
  kAbsent,    // an optional input that is not given
};

struct Input {
  graph::TensorType type;
  Fill fill = Fill::kNormal;
  int64_t limit = 0;
};

struct Case {
  std::string op;
  std::string label;
  std::vector<Input> inputs;
  graph::Attributes attributes = {};
  std::vector<int> left_out = {};                 // unused optional outputs
  std::vector<graph::InPlacePair> in_place = {};  // an output reuses an input's memory
  double bytes = 0;                               // moved at least; 0: by the op's cost rule
};

std::vector<Case> Cases();

}  // namespace plimsoll::bench
