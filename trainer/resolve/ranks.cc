#include "trainer/resolve/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/axes.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/fnv1a.h"
#include "graph/text.h"
#include "parallel/rank_calls.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/step/carried_state.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;
using runtime::AvailableMemoryBytes;

// Ranks that take memory from the same host, or from the same control group of a host.
struct Sharing {
  std::vector<size_t> ranks;
  int64_t bytes = 0;
  int64_t most = 0;  // the largest share of one rank
  int64_t available = AvailableMemoryBytes::kNoLimit;

  void Add(size_t rank, int64_t of_rank, int64_t left) {
    ranks.push_back(rank);
    bytes += of_rank;
    most = std::max(most, of_rank);
    available = std::min(available, left);
  }
  bool Fits() const { return ranks.size() == 1 || bytes <= available; }
};

std::string DescribeLack(const Sharing& sharing, const std::string& host, bool limited,
                         runtime::DeviceKind device) {
  const auto count = static_cast<int64_t>(sharing.ranks.size());
  const bool gpu = device == runtime::DeviceKind::kCuda;
  const std::string text = fmt::format(
      "ranks {} on host {} need {} of its memory together for {}, at most {} of it each, but {} {}",
      fmt::join(sharing.ranks, ", "), host, FormatBytes(sharing.bytes),
      gpu ? "what their plans keep on the host" : "their plans", FormatBytes(sharing.most),
      limited ? "their control group (a container's or a batch job's limit) leaves"
              : "the host has",
      FormatBytes(std::max<int64_t>(sharing.available, 0)));
  if (!gpu) return text + "; fewer ranks on a host, or a smaller train.micro_batch, need less";
  return text + fmt::format(
                    "; keep more on the GPUs (memory.weights, memory.gradients, optimizer.place, "
                    "checkpointing.offload), start fewer ranks on a host, or set "
                    "memory.host_budget, which is each rank's, to at most {}",
                    FormatBytes(std::max<int64_t>(sharing.available, 0) / count));
}

HostShare ShareFrom(const std::string& text) {
  const json told = json::parse(text);
  return {.leader = told.at("leader"),
          .host = told.at("host"),
          .bytes = told.at("bytes"),
          .available = {.machine = told.at("machine"),
                        .group = told.at("group"),
                        .group_id = told.at("group_id")}};
}

constexpr char kWayOut[] = "start every rank with the same program, run file and environment";

// The first rank of a rank's stage, with which the rank is compared.
size_t FirstOfStage(const Mesh& mesh, size_t rank) {
  const int64_t stage = mesh.Coordinate(static_cast<int64_t>(rank), kPipelineAxis);
  return mesh.Has(kPipelineAxis) ? static_cast<size_t>(mesh.RankAt({{kPipelineAxis, stage}})) : 0;
}

// The first rank whose text differs from the text of its stage's first rank; 0 if no text differs.
// All ranks call this.
size_t FirstThatDiffers(runtime::World& world, const std::string& text, const Mesh& mesh = {}) {
  const std::vector<std::string> all = world.Gather(fmt::format("{:016x}", Fnv1a(text)));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[FirstOfStage(mesh, rank)]) return rank;
  }
  return 0;
}

std::string Joined(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n"));
}

// Names the first line in which a rank's text differs from the first rank's. The texts must differ.
std::string FirstDifference(const std::string& first, const std::string& text, size_t first_rank,
                            size_t rank, std::string_view what) {
  std::istringstream first_lines(first), rank_lines(text);
  const auto next = [](std::istringstream& from) {
    std::string line;
    return std::getline(from, line) ? line : std::string("nothing more");
  };
  std::string in_first, in_text;
  do {
    in_first = next(first_lines);
    in_text = next(rank_lines);
  } while (in_first == in_text);  // terminates because the texts differ
  return fmt::format("rank {0}: its {1} differ from rank {2}'s: it has {3} where rank {2} has {4}",
                     rank, what, first_rank, in_text, in_first);
}

void RequireSameLines(runtime::World& world, const Mesh& mesh,
                      const std::vector<std::string>& lines, std::string_view what) {
  const std::string text = Joined(lines);
  const size_t rank = FirstThatDiffers(world, text, mesh);
  if (rank == 0) return;
  // The texts themselves are sent only if their hashes differ.
  const std::vector<std::string> texts = world.Gather(text);
  const size_t first = FirstOfStage(mesh, rank);
  throw UserError(fmt::format(
      "{}; {}", FirstDifference(texts[first], texts[rank], first, rank, what), kWayOut));
}

constexpr std::string_view kCarried = "carried tensors";
constexpr std::string_view kCollectives = "collectives";

// The offsets of the node's arguments.
std::string Places(const graph::Program& program, const graph::Node& node,
                   const runtime::Layout& layout) {
  std::vector<int64_t> places;
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (const graph::TensorId id : *ids) {
      // A view of a rank's own part has a different offset on each rank, but its base has the same
      // offset.
      if (id != graph::kNoTensor) places.push_back(layout.offset(program.Root(id)));
    }
  }
  return fmt::format("{}", fmt::join(places, ", "));
}

}  // namespace

std::string HostMemoryProblem(std::span<const HostShare> ranks, runtime::DeviceKind device) {
  // The ranks by host and control group; control group 0 is the complete host.
  std::map<std::pair<int64_t, uint64_t>, Sharing> all;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const HostShare& share = ranks[rank];
    const AvailableMemoryBytes& available = share.available;
    all[{share.leader, 0}].Add(rank, share.bytes, available.machine);
    if (available.group == AvailableMemoryBytes::kNoLimit) continue;
    all[{share.leader, available.group_id}].Add(rank, share.bytes, available.group);
  }
  for (const auto& [place, sharing] : all) {
    if (sharing.Fits()) continue;
    return DescribeLack(sharing, ranks[sharing.ranks.front()].host, place.second != 0, device);
  }
  return "";
}

void RequireHostMemory(runtime::World& world, int64_t bytes, runtime::DeviceKind device,
                       const AvailableMemoryBytes& available) {
  const std::string here = json{{"leader", world.host_leader()},
                                {"host", world.host()},
                                {"bytes", bytes},
                                {"machine", available.machine},
                                {"group", available.group},
                                {"group_id", available.group_id}}
                               .dump();
  std::vector<HostShare> ranks;
  for (const std::string& text : world.Gather(here)) ranks.push_back(ShareFrom(text));
  const std::string problem = HostMemoryProblem(ranks, device);
  if (!problem.empty()) throw UserError(problem, ExitCode::kBudgetNotMet);
}

void RequireSame(runtime::World& world, const std::string& text, const std::string& what) {
  const size_t rank = FirstThatDiffers(world, text);
  if (rank == 0) return;
  throw UserError(fmt::format("rank {}: its {} differ from rank 0's; {}", rank, what, kWayOut));
}

CommonLines CommonLinesOf(const CompiledStep& compiled) {
  CommonLines common;
  const bool gpu = compiled.options.device == runtime::DeviceKind::kCuda;
  for (size_t p = 0; p < compiled.programs.size(); ++p) {
    const graph::Program& program = *compiled.programs[p];
    for (const graph::Node& node : program.nodes()) {
      const std::optional<parallel::RankCall> call = parallel::CallOf(program, node);
      // The end of a collective is not compared: each rank waits where it needs the result.
      if (!call || call->done()) continue;
      std::string line = fmt::format("{} in program '{}'", Text(*call), program.name());
      if (gpu) line += " at " + Places(program, node, compiled.plan.programs[p].layout);
      common.collectives.push_back(std::move(line));
    }
  }
  if (gpu && !common.collectives.empty()) {
    common.collectives.push_back(fmt::format("an arena of {} bytes", compiled.plan.arena_bytes));
  }
  for (const graph::Tensor* tensor :
       CarriedState(StepProgramsOf(compiled), compiled.options.KeptElsewhere())) {
    common.carried.push_back(
        fmt::format("{}: {} {}", tensor->name, tensor->type.ToString(), graph::Name(tensor->role)));
  }
  return common;
}

void RequireAgreement(runtime::World& world, const CompiledStep& compiled) {
  if (world.size() == 1) return;
  const CommonLines common = CommonLinesOf(compiled);
  RequireSameLines(world, compiled.options.mesh, common.carried, kCarried);
  RequireSameLines(world, compiled.options.mesh, common.collectives, kCollectives);
}

std::string Disagreement(const CommonLines& first, const CommonLines& other, int64_t rank,
                         int64_t first_rank) {
  const auto of = [&](const std::vector<std::string>& lines, const std::vector<std::string>& others,
                      std::string_view what) {
    if (lines == others) return std::string();
    return FirstDifference(Joined(lines), Joined(others), static_cast<size_t>(first_rank),
                           static_cast<size_t>(rank), what);
  };
  const std::string carried = of(first.carried, other.carried, kCarried);
  return carried.empty() ? of(first.collectives, other.collectives, kCollectives) : carried;
}

std::string FingerprintOf(const CompiledStep& compiled) {
  uint64_t hash = kFnv1a;
  for (size_t p = 0; p < compiled.programs.size(); ++p) {
    const graph::Program& program = *compiled.programs[p];
    hash = Fnv1a(graph::ToText(program), hash);
    // Skips views: a view of a rank's own part has a different offset on each rank.
    for (size_t id = 0; id < program.tensors().size(); ++id) {
      if (program.tensors()[id].alias) continue;
      const int64_t offset = compiled.plan.programs[p].layout.offset(static_cast<int>(id));
      hash = Fnv1a({reinterpret_cast<const char*>(&offset), sizeof(offset)}, hash);
    }
  }
  return fmt::format("{:016x} {} {}", hash, compiled.plan.arena_bytes,
                     compiled.plan.host_arena_bytes);
}

std::string FirstProblem(runtime::RankGroup& ranks, FunctionRef<void()> action) {
  std::string here;
  try {
    action();
  } catch (const UserError& error) {
    here = error.what();
  }
  const std::vector<std::string> all = ranks.Gather(here);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) {
      return all.size() == 1 ? all[rank] : fmt::format("rank {}: {}", rank, all[rank]);
    }
  }
  return "";
}

void RequireOnAll(runtime::RankGroup& ranks, FunctionRef<void()> action) {
  if (ranks.size() == 1) return action();
  std::string here;
  try {
    action();
  } catch (const UserError& error) {
    here = json{error.what(), static_cast<int>(error.code())}.dump();
  }
  const std::vector<std::string> all = ranks.Gather(here);
  const auto first = std::ranges::find_if(all, [](const auto& text) { return !text.empty(); });
  if (first == all.end()) return;
  const json problem = json::parse(*first);
  const std::string message = problem[0];
  throw UserError(
      first == all.begin() ? message : fmt::format("rank {}: {}", first - all.begin(), message),
      static_cast<ExitCode>(problem[1].get<int>()));
}

bool Ranks::Any(bool here) {
  const std::vector<std::string> all = world_.Gather(here ? "1" : "0");
  return std::ranges::find(all, "1") != all.end();
}

void Ranks::AddUpStages(CompiledStep& compiled) {
  runtime::RankGroup* const stages = groups().Of(kPipelineAxis);
  if (stages == nullptr) return;
  const json own = {compiled.model_flops, compiled.model_flops_of_codes};
  compiled.model_flops = compiled.model_flops_of_codes = 0;
  for (const std::string& text : stages->Gather(own.dump())) {
    const json stage = json::parse(text);
    compiled.model_flops += stage[0].get<double>();
    compiled.model_flops_of_codes += stage[1].get<double>();
  }
}

double Ranks::PredictSeconds(const CompiledStep& compiled, const memory::CostModel& cost) {
  runtime::RankGroup* const stages = groups().Of(kPipelineAxis);
  if (stages == nullptr) return trainer::PredictSeconds(compiled, cost);
  const StageSeconds own = StageSecondsOf(compiled, cost);
  std::vector<StageSeconds> all;
  for (const std::string& text :
       stages->Gather(json{own.forward, own.backward, own.update}.dump())) {
    const json stage = json::parse(text);
    all.push_back({.forward = stage[0], .backward = stage[1], .update = stage[2]});
  }
  return PredictStages(all, compiled.options.accumulate).seconds;
}

void Ranks::RequireHostMemory(const CompiledStep& compiled) {
  const runtime::DeviceKind device = compiled.options.device;
  const int64_t on_device =
      device == runtime::DeviceKind::kCpu ? compiled.plan.arena_bytes : int64_t{0};
  trainer::RequireHostMemory(world_, on_device + compiled.plan.host_bytes(), device,
                             runtime::MeasureAvailableMemory());
}

}  // namespace plimsoll::trainer
