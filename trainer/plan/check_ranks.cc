#include "trainer/plan/check_ranks.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/axes.h"
#include "base/error.h"
#include "graph/micro_steps.h"
#include "parallel/cut_stage.h"
#include "trainer/resolve/ranks.h"

namespace plimsoll::trainer {
namespace {

// Shares the lists that equal the first rank's, because the lists of large models are long.
void ShareLists(const parallel::RankCalls& first, parallel::RankCalls& calls) {
  for (size_t i = 0; i < calls.lists.size() && i < first.lists.size(); ++i) {
    if (*calls.lists[i] == *first.lists[i]) calls.lists[i] = first.lists[i];
  }
}

CompiledStep CompileRank(const models::Model& model, CompileOptions options, int64_t rank) {
  options.rank = rank;
  options.dump_directory.clear();  // only the first rank dumps its programs
  try {
    return Compile(model, options);
  } catch (const InternalError& error) {
    throw InternalError(fmt::format("rank {}: {}", rank, error.what()));
  }
}

}  // namespace

namespace {

// Adds a stage's transfers between its runs, as Session makes them.
class StageTransfers {
 public:
  StageTransfers(const CompiledStep& compiled, parallel::RankCalls& calls)
      : compiled_(compiled), calls_(calls) {}

  void Before(const StepEntry& entry) {
    if (entry.action == StepAction::kUpdate) {
      for (const RankCall& send : std::exchange(sends_, {})) Add(DoneOf(send));
    }
    if (!entry.sends.empty()) {
      const std::string tensor = graph::OfMicroStep(entry.slot, entry.sends);
      const auto flying = std::ranges::find(sends_, tensor, &RankCall::tensor);
      if (flying != sends_.end()) {
        Add(DoneOf(*flying));
        sends_.erase(flying);
      }
    }
    if (!entry.receives.empty()) Add(Transfer(entry, RankCall::Kind::kReceive, entry.receives));
  }

  void After(const StepEntry& entry) {
    if (entry.sends.empty()) return;
    sends_.push_back(Transfer(entry, RankCall::Kind::kSend, entry.sends));
    Add(sends_.back());
  }

 private:
  using RankCall = parallel::RankCall;

  RankCall Transfer(const StepEntry& entry, RankCall::Kind kind, std::string_view name) const {
    const CompileOptions& options = compiled_.options;
    const int64_t stage = options.mesh.Coordinate(options.rank, kPipelineAxis);
    const std::vector<int64_t> ranks = options.mesh.GroupOf(options.rank, kPipelineAxis);
    const bool down = name == parallel::kStageIn || name == parallel::kStageOut;
    const bool next = name == parallel::kStageOut || name == parallel::kStageOutGrad;
    RankCall call;
    call.kind = kind;
    call.tensor = graph::OfMicroStep(entry.slot, name);
    const graph::Program& program = *compiled_.programs[static_cast<size_t>(entry.program)];
    call.types = program.tensor(program.Require(call.tensor)).type.ToString();
    call.stream = down ? "down" : "up";
    call.blocks = kind == RankCall::Kind::kReceive;
    call.peer = ranks.at(static_cast<size_t>(next ? stage + 1 : stage - 1));
    call.micro_batch = entry.micro_step;
    call.slot = entry.slot;
    return call;
  }

  static RankCall DoneOf(const RankCall& send) {
    RankCall done = send;
    done.kind = RankCall::Kind::kTransferDone;
    done.stream.clear();
    return done;
  }

  // The second step repeats the first one's calls, so known lists are reused.
  void Add(RankCall call) {
    const parallel::CallList list = {"between programs", {std::move(call)}};
    const auto known =
        std::ranges::find_if(calls_.lists, [&](const auto& other) { return *other == list; });
    calls_.order.push_back({.list = static_cast<int>(known - calls_.lists.begin())});
    if (known == calls_.lists.end()) {
      calls_.lists.push_back(std::make_shared<const parallel::CallList>(list));
    }
  }

  const CompiledStep& compiled_;
  parallel::RankCalls& calls_;
  std::vector<RankCall> sends_;  // sends not awaited yet
};

}  // namespace

parallel::RankCalls RankCallsOf(const CompiledStep& compiled) {
  parallel::RankCalls calls;
  for (const auto& program : compiled.programs) {
    calls.lists.push_back(std::make_shared<const parallel::CallList>(parallel::CallsOf(*program)));
  }
  StageTransfers transfers(compiled, calls);
  for (int step = 0; step < 2; ++step) {
    for (const StepEntry& entry : compiled.step.entries) {
      transfers.Before(entry);
      calls.order.push_back({.list = entry.program, .times = entry.times});
      transfers.After(entry);
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
      fmt::format("checked {}: {} in {}", Counted(ranks, "rank"),
                  Counted(proof.collectives, "collective"), Counted(proof.programs, "program"));
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
  std::vector<CommonLines> of_stages = {CommonLinesOf(first)};
  std::vector<parallel::RankCalls> calls = {RankCallsOf(first)};
  int64_t first_of_stage = 0;
  for (int64_t rank = 1; rank < mesh.size(); ++rank) {
    const CompiledStep compiled = CompileRank(model, first.options, rank);
    CommonLines common = CommonLinesOf(compiled);
    if (mesh.Coordinate(rank, kPipelineAxis) == std::ssize(of_stages)) {
      of_stages.push_back(std::move(common));
      first_of_stage = rank;
    } else {
      const std::string problem = Disagreement(of_stages.back(), common, rank, first_of_stage);
      if (!problem.empty()) throw InternalError(problem);
    }
    calls.push_back(RankCallsOf(compiled));
    ShareLists(calls.front(), calls.back());
  }
  const bool stages = mesh.ranks(kPipelineAxis) > 1;
  RanksCheck check{
      .ranks = mesh.size(),
      .proof = parallel::ProveCalls(mesh, calls, stages ? kPipelineAxis : std::string_view())};
  if (!check.proof.problem.empty()) throw InternalError(check.proof.problem);
  return check;
}

}  // namespace plimsoll::trainer
