// What models carry besides parameters (models::StateInfo): how it follows a batch, and how a step
// takes it over.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// state + momentum · (value − state), in float32 whatever the policy of mixed precision: the
// running statistics of PyTorch's batch norm, with its meaning of `momentum`.
graph::Value MovingAverage(graph::Builder& g, graph::Value state, graph::Value value,
                           double momentum, std::string_view name = "");

// The persistent `state` becomes `pending` / `parts`, unless apply i32[] is 0 (kNoTensor: always).
// `parts`: of how many ranks `pending` is the sum.
void CommitState(graph::Builder& g, graph::Value state, graph::Value pending, int64_t parts,
                 graph::Value apply);

}  // namespace plimsoll::ops
