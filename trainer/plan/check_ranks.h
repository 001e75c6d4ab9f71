// `plimsoll plan --check`: proves from the programs that the steps of all ranks of a mesh work
// together, before any rank starts.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/model.h"
#include "parallel/prove_calls.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The number of collectives and transfers in two steps and in the work between steps. Each program
// counts once.
parallel::RankCalls RankCallsOf(const CompiledStep& compiled);

// Compiling each rank takes time, so larger meshes are refused.
inline constexpr int64_t kMostCheckedRanks = 64;

struct RanksCheck {
  int64_t ranks = 1;
  parallel::CallProof proof;

  // "checked 4 ranks: 212 collectives in 3 programs meet in an order that cannot deadlock; …"
  std::string Text() const;
  nlohmann::ordered_json Json() const;
};

// Throws a UserError if there are more than kMostCheckedRanks ranks.
void RequireCheckable(int64_t ranks);

// Compiles the step of every rank of the mesh, which checks its plan. Proves that the ranks' calls
// match, and makes the comparisons that ranks make before their first step. `first` is the step of
// rank 0. Throws an InternalError that names the rank and the call or tensor of the first problem.
// Throws a UserError for too many ranks.
RanksCheck CheckRanks(const models::Model& model, const CompiledStep& first);

}  // namespace plimsoll::trainer
