// `plimsoll plan --check`: that the steps of all ranks of a mesh work together, proved from their
// programs, before any of them starts.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/model.h"
#include "parallel/prove_calls.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The calls of two steps, and of what is run between steps, each program once.
parallel::RankCalls RankCallsOf(const CompiledStep& compiled);

// Each rank is compiled, which takes time: larger meshes are refused.
inline constexpr int64_t kMostCheckedRanks = 64;

struct RanksCheck {
  int64_t ranks = 1;
  parallel::CallProof proof;

  // "checked 4 ranks: 212 collectives in 3 programs meet in an order that cannot deadlock; …"
  std::string Text() const;
  nlohmann::ordered_json Json() const;
};

// UserError for more than kMostCheckedRanks.
void RequireCheckable(int64_t ranks);

// Compiles the step of every rank of the mesh, which checks its plan, proves what they call, and
// compares what ranks compare before their first step. `first`: of rank 0. InternalError that
// names rank and call, or tensor, of the first that is wrong; UserError for too many ranks.
RanksCheck CheckRanks(const models::Model& model, const CompiledStep& first);

}  // namespace plimsoll::trainer
