// Carried states: a running mean, how a micro-step adds to the new value (graph::OverMicroSteps),
// and how the update commits the new value.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// state + momentum · (value − state), in float32 under any policy of mixed precision: the running
// statistics of PyTorch's batch norm, with its meaning of `momentum`. `value` has the state's
// shape, or [G, …]: then the mean of its G values is used.
graph::Value MovingAverage(graph::Builder& g, graph::Value state, graph::Value value,
                           double momentum, std::string_view name = "");

// state + value, of one shape, in float32 under any policy of mixed precision: for counts and sums.
graph::Value AddToState(graph::Builder& g, graph::Value state, graph::Value value,
                        std::string_view name = "");

// The larger of |value| and |state|, element by element, f32. It is NaN, with a positive sign, if
// one of them is NaN. Without `state` (kNoTensor) it is |value|.
graph::Value MaxMagnitude(graph::Builder& g, graph::Value value, graph::Value state,
                          std::string_view name = "");

// Writes a micro-step's new value of a state to the state's pending tensor, as the tensor's
// OverMicroSteps says. `first`: this is the first micro-step of the step, and `pending` holds no
// value yet. In later micro-steps with OverMicroSteps::kLast, `next` must have been computed from
// `pending`.
void WritePending(graph::Builder& g, graph::Value pending, graph::Value next, bool first);

// Sets the persistent `state` to `pending` / `parts`, unless apply i32[] is 0. Without `apply`
// (kNoTensor), always sets it. `pending` is the sum of `parts` values.
void CommitState(graph::Builder& g, graph::Value state, graph::Value pending, int64_t parts,
                 graph::Value apply);

}  // namespace plimsoll::ops
