// Small training programs for the budget solver, whose blocks have a handful of activations each.
#pragma once

#include <memory>

#include "graph/program.h"
#include "memory/cost_model.h"
#include "memory/solver.h"

namespace plimsoll::memory {

enum class Kind { kFeedForward, kAttention, kMixed };

// A program of `blocks` blocks of a kind; kMixed: attention and feed-forward in turn.
std::shared_ptr<graph::Program> Train(Kind kind, int blocks);

// Every saved activation is a decision; the policy is "none".
Variant VariantOf(std::shared_ptr<const graph::Program> base);

// The first of the largest saved activations of every block may wait on the host; the others are
// kept. Ways back start in time by the model's rates.
Variant OffloadingVariantOf(std::shared_ptr<const graph::Program> base, const CostModel& cost);

}  // namespace plimsoll::memory
