// Proves that the calls of all ranks (rank_calls.h) meet and end, or names the first call that
// doesn't.
//
//   - Ranks of one program make equal calls in equal order, with equal types and attributes.
//   - Each call that starts is awaited once; a collective in the program that started it.
//   - A send meets a receive of the same type and micro-batch.
//   - No order of execution ends in a deadlock, even if nothing is buffered: a collective ends when
//     all ranks of its group have reached it, a send when its receiver has. One replay proves this
//     for all orders, because which calls meet does not depend on which rank is faster.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/mesh.h"
#include "parallel/rank_calls.h"

namespace plimsoll::parallel {

struct CallProof {
  std::string problem;  // names the rank, the program and the call; empty if the proof succeeded
  // The numbers of calls that were proved. Repeated runs of a list count once.
  int64_t collectives = 0;  // collectives; each counts once for every group of ranks that makes it
  int64_t pairs = 0;        // sends with their receives
  int64_t programs = 0;     // programs with collectives, counted by name
};

// `ranks`: the calls of the mesh's ranks, in the order of the ranks. Ranks along the axis `apart`
// have different programs: only their collectives along that axis must be equal. An empty `apart`
// means that all ranks have one program.
CallProof ProveCalls(const Mesh& mesh, std::span<const RankCalls> ranks,
                     std::string_view apart = {});

}  // namespace plimsoll::parallel
