#include "trainer/plan/check_ranks.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trainer/settle/ranks.h"

namespace plimsoll::trainer {
namespace {

// Shares the lists that are equal to the first rank's: those of large models are long.
void ShareLists(const parallel::RankCalls& first, parallel::RankCalls& calls) {
  for (size_t i = 0; i < calls.lists.size() && i < first.lists.size(); ++i) {
    if (*calls.lists[i] == *first.lists[i]) calls.lists[i] = first.lists[i];
  }
}

CompiledStep CompileRank(const models::Model& model, CompileOptions options, int64_t rank) {
  options.rank = rank;
  options.dump_directory.clear();  // the first rank's programs are there
  try {
    return Compile(model, options);
  } catch (const InternalError& error) {
    throw InternalError(fmt::format("rank {}: {}", rank, error.what()));
  }
}

std::string Counted(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

parallel::RankCalls RankCallsOf(const CompiledStep& compiled) {
  parallel::RankCalls calls;
  for (const auto& program : compiled.programs) {
    calls.lists.push_back(std::make_shared<const parallel::CallList>(parallel::CallsOf(*program)));
  }
  for (int step = 0; step < 2; ++step) {
    for (const StepEntry& entry : compiled.step.entries) {
      calls.order.push_back({.list = entry.program, .times = entry.times});
    }
  }
  for (int program = 0; program < std::ssize(compiled.programs); ++program) {
    if (!compiled.step.Runs(program)) calls.order.push_back({.list = program});
  }
  return calls;
}

std::string RanksCheck::Text() const {
  if (ranks == 1) return "checked 1 rank: it waits for no other; its arena is sound";
  std::string text =
      fmt::format("checked {} ranks: {} in {}", ranks, Counted(proof.collectives, "collective"),
                  Counted(proof.programs, "program"));
  if (proof.pairs > 0) text += fmt::format(" and {} between them", Counted(proof.pairs, "send"));
  return text + " meet in an order that cannot deadlock; arenas are sound";
}

nlohmann::ordered_json RanksCheck::Json() const {
  return {{"ranks", ranks},
          {"collectives", proof.collectives},
          {"pairs", proof.pairs},
          {"programs", proof.programs}};
}

void RequireCheckable(int64_t ranks) {
  if (ranks <= kMostCheckedRanks) return;
  throw UserError(fmt::format(
      "plimsoll plan: --check compiles every rank, at most {} of them, and the mesh has {}; check "
      "a smaller mesh of the same kind (parallel.data)",
      kMostCheckedRanks, ranks));
}

RanksCheck CheckRanks(const models::Model& model, const CompiledStep& first) {
  const Mesh& mesh = first.options.mesh;
  RequireCheckable(mesh.size());
  const CommonLines common = CommonLinesOf(first);
  std::vector<parallel::RankCalls> calls = {RankCallsOf(first)};
  for (int64_t rank = 1; rank < mesh.size(); ++rank) {
    const CompiledStep compiled = CompileRank(model, first.options, rank);
    const std::string problem = Disagreement(common, CommonLinesOf(compiled), rank);
    if (!problem.empty()) throw InternalError(problem);
    calls.push_back(RankCallsOf(compiled));
    ShareLists(calls.front(), calls.back());
  }
  RanksCheck check{.ranks = mesh.size(), .proof = parallel::ProveCalls(mesh, calls)};
  if (!check.proof.problem.empty()) throw InternalError(check.proof.problem);
  return check;
}

}  // namespace plimsoll::trainer
