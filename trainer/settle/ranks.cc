#include "trainer/settle/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fnv1a.h"
#include "graph/text.h"
#include "ops/collectives/axis.h"
#include "trainer/step/carried_state.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;
using runtime::AvailableMemoryBytes;

// Ranks that take from the same memory: of a host, or of a control group there.
struct Sharing {
  std::vector<size_t> ranks;
  int64_t bytes = 0;
  int64_t most = 0;  // of one rank
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

// The first rank whose text differs from rank 0's; 0: none does. All ranks call.
size_t FirstThatDiffers(runtime::World& world, const std::string& text) {
  const std::vector<std::string> all = world.Gather(fmt::format("{:016x}", Fnv1a(text)));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) return rank;
  }
  return 0;
}

void RequireSameLines(runtime::World& world, const std::vector<std::string>& lines,
                      std::string_view what) {
  const std::string text = fmt::format("{}", fmt::join(lines, "\n"));
  const size_t rank = FirstThatDiffers(world, text);
  if (rank == 0) return;
  // The lines themselves travel only now.
  const std::vector<std::string> texts = world.Gather(text);
  std::istringstream first_lines(texts[0]), rank_lines(texts[rank]);
  const auto next = [](std::istringstream& from) {
    std::string line;
    return std::getline(from, line) ? line : std::string("nothing more");
  };
  std::string first, other;
  do {
    first = next(first_lines);
    other = next(rank_lines);
  } while (first == other);  // ends, since the texts differ
  throw UserError(
      fmt::format("rank {}: its {} differ from rank 0's: it has {} where rank 0 has "
                  "{}; {}",
                  rank, what, other, first, kWayOut));
}

// The types of arguments and, with a layout, where they lie.
std::string Arguments(const graph::Program& program, const std::vector<graph::TensorId>& ids,
                      const runtime::Layout* layout) {
  std::vector<std::string> words;
  for (const graph::TensorId id : ids) {
    if (id == graph::kNoTensor) {
      words.push_back("_");
      continue;
    }
    words.push_back(program.tensor(id).type.ToString());
    if (layout == nullptr) continue;
    // A view of a rank's own part lies elsewhere on each rank, its base does not.
    words.back() += fmt::format(" at {}", layout->offset(program.Root(id)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::string HostMemoryProblem(std::span<const HostShare> ranks, runtime::DeviceKind device) {
  // By host and control group; 0: the whole host.
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
    const runtime::Layout* const layout = gpu ? &compiled.plan.programs[p].layout : nullptr;
    for (const graph::Node& node : program.nodes()) {
      if (!node.attributes.Has("axis")) continue;
      common.collectives.push_back(fmt::format(
          "{} @{} along '{}' in program '{}', {} → {}", node.op->name, node.scope,
          ops::AxisOf(node.attributes), program.name(), Arguments(program, node.inputs, layout),
          Arguments(program, node.outputs, layout)));
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
  RequireSameLines(world, common.carried, "carried tensors");
  RequireSameLines(world, common.collectives, "collectives");
}

std::string FingerprintOf(const CompiledStep& compiled) {
  uint64_t hash = kFnv1a;
  for (size_t p = 0; p < compiled.programs.size(); ++p) {
    const graph::Program& program = *compiled.programs[p];
    hash = Fnv1a(graph::ToText(program), hash);
    // A view of a rank's own part lies elsewhere on each rank.
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

bool Ranks::Any(bool here) {
  const std::vector<std::string> all = world_.Gather(here ? "1" : "0");
  return std::ranges::find(all, "1") != all.end();
}

void Ranks::RequireHostMemory(const CompiledStep& compiled) {
  const runtime::DeviceKind device = compiled.options.device;
  const int64_t on_device =
      device == runtime::DeviceKind::kCpu ? compiled.plan.arena_bytes : int64_t{0};
  trainer::RequireHostMemory(world_, on_device + compiled.plan.host_bytes(), device,
                             runtime::MeasureAvailableMemory());
}

}  // namespace plimsoll::trainer
