#include "trainer/settle/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/fnv1a.h"
#include "graph/text.h"
#include "ops/collectives/axis.h"
#include "trainer/step/carried_state.h"

namespace plimsoll::trainer {
namespace {

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

}  // namespace plimsoll::trainer
