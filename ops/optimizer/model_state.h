// Carried states: a running mean, how a micro-step adds to the new value (graph::OverMicroSteps),
// and the end of a step, where a state takes it.
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

// The larger of |value| and |state|, element by element, f32; NaN, with a positive sign, where one
// of them is NaN. Without `state` (kNoTensor) |value|.
graph::Value MaxMagnitude(graph::Builder& g, graph::Value value, graph::Value state,
                          std::string_view name = "");

// Writes what a micro-step makes of a state to its pending tensor, as that tensor's
// OverMicroSteps says. `first`: it is the first micro-step of the step, and `pending` holds nothing
// yet. Otherwise, with OverMicroSteps::kLast, `next` is to continue from `pending`.
void WritePending(graph::Builder& g, graph::Value pending, graph::Value next, bool first);

// Sets the persistent `state` to `pending` / `parts`, unless apply i32[] is 0. Without `apply`
// (kNoTensor), always. `parts` is the number of values whose sum `pending` is.
void CommitState(graph::Builder& g, graph::Value state, graph::Value pending, int64_t parts,
                 graph::Value apply);

}  // namespace plimsoll::ops
