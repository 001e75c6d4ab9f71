#include "parallel/rank_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "graph/text.h"
#include "ops/collectives/axis.h"
#include "ops/collectives/collective.h"

namespace plimsoll::parallel {
namespace {

using Kind = RankCall::Kind;

std::string TypesOf(const graph::Program& program, const std::vector<graph::TensorId>& ids) {
  std::vector<std::string> words;
  for (const graph::TensorId id : ids) {
    words.push_back(id == graph::kNoTensor ? "_" : program.tensor(id).type.ToString());
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string TransferText(const RankCall& call) {
  const std::string what = fmt::format("%{} ({}, micro-batch {}, slot {})", call.tensor, call.types,
                                       call.micro_batch, call.slot);
  if (call.kind == Kind::kSend) return fmt::format("send of {} to rank {}", what, call.peer);
  return fmt::format("receive of {} from rank {}", what, call.peer);
}

}  // namespace

std::string Text(const RankCall& call) {
  if (call.transfer()) return TransferText(call);
  if (call.kind == Kind::kTransferDone) {
    return fmt::format("end of the transfer of %{} in slot {}", call.tensor, call.slot);
  }
  std::string text = fmt::format("{} of %{}", call.op, call.tensor);
  if (!call.scope.empty()) text += " @" + call.scope;
  if (!call.types.empty()) text += ": " + call.types;
  if (!call.details.empty()) text += " " + call.details;
  return text;
}

std::optional<RankCall> CallOf(const graph::Program& program, const graph::Node& node) {
  const bool done = ops::IsCollectiveDone(*node.op);
  if (!done && !ops::WaitsForRanks(node)) return std::nullopt;
  RankCall call;
  call.kind = done                          ? Kind::kCollectiveDone
              : ops::IsCollective(*node.op) ? Kind::kCollectiveStart
                                            : Kind::kReduction;
  const std::vector<graph::TensorId>& named = done ? node.inputs : node.outputs;
  const auto made =
      std::ranges::find_if(named, [](graph::TensorId id) { return id != graph::kNoTensor; });
  if (made != named.end()) call.tensor = program.tensor(program.Root(*made)).name;
  call.op = node.op->name;
  call.scope = node.scope;
  call.types =
      fmt::format("{} → {}", TypesOf(program, node.inputs), TypesOf(program, node.outputs));
  call.details = graph::ToText(node.attributes);
  if (!done) call.stream = ops::AxisOf(node.attributes);
  return call;
}

CallList CallsOf(const graph::Program& program) {
  CallList list{.program = program.name(), .calls = {}};
  for (const graph::Node& node : program.nodes()) {
    if (std::optional<RankCall> call = CallOf(program, node))
      list.calls.push_back(*std::move(call));
  }
  return list;
}

}  // namespace plimsoll::parallel
