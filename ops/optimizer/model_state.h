// States of models (models::StateInfo): a running mean, and the end of a step, where a state takes
// its new value.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// state + momentum · (value − state), in float32 whatever the policy of mixed precision: the
// running statistics of PyTorch's batch norm, with its meaning of `momentum`. `value` is of the
// state's shape, or [G, …] of G such values, whose mean counts.
graph::Value MovingAverage(graph::Builder& g, graph::Value state, graph::Value value,
                           double momentum, std::string_view name = "");

// state + value, of one shape, in float32 whatever the policy: counts and sums.
graph::Value AddToState(graph::Builder& g, graph::Value state, graph::Value value,
                        std::string_view name = "");

// Sets the persistent `state` to `pending` / `parts`, unless apply i32[] is 0. Without `apply`
// (kNoTensor), always. `parts` is the number of values whose sum `pending` is.
void CommitState(graph::Builder& g, graph::Value state, graph::Value pending, int64_t parts,
                 graph::Value apply);

}  // namespace plimsoll::ops
