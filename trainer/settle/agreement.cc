#include "trainer/settle/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "ops/axis.h"
#include "trainer/step/carried_state.h"

namespace plimsoll::trainer {
namespace {

constexpr const char* kCarried = "";  // in place of an axis: carried tensors
constexpr size_t kDigits = 16;        // of a hash

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

// FNV-1a.
uint64_t HashOf(const std::vector<std::string>& lines) {
  uint64_t hash = 14695981039346656037u;
  for (const std::string& line : lines) {
    for (const char c : line + "\n") hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  }
  return hash;
}

const std::vector<std::string>& LinesOf(const CommonLines& common, const std::string& axis) {
  static const std::vector<std::string> kNone;
  if (axis == kCarried) return common.carried;
  const auto found = common.collectives.find(axis);
  return found == common.collectives.end() ? kNone : found->second;
}

// Two ranks whose lines about an axis, or about carried tensors, differ.
struct Difference {
  int64_t rank, other;
  std::string axis;
};

// `hashes` holds one text per rank: for each entry of `about`, the hash of the rank's lines.
std::optional<Difference> FirstDifference(const Mesh& mesh, const std::vector<std::string>& about,
                                          const std::vector<std::string>& hashes) {
  for (size_t i = 0; i < about.size(); ++i) {
    const auto hash = [&](int64_t rank) {
      return hashes[static_cast<size_t>(rank)].substr(i * kDigits, kDigits);
    };
    for (int64_t rank = 0; rank < mesh.size(); ++rank) {
      const int64_t first = about[i] == kCarried ? 0 : mesh.GroupOf(rank, about[i]).front();
      if (hash(rank) != hash(first)) return Difference{rank, first, about[i]};
    }
  }
  return std::nullopt;
}

}  // namespace

CommonLines CommonLinesOf(const CompiledStep& compiled) {
  CommonLines common;
  const bool gpu = compiled.options.device == runtime::DeviceKind::kCuda;
  for (size_t p = 0; p < compiled.programs.size(); ++p) {
    const graph::Program& program = *compiled.programs[p];
    const runtime::Layout* const layout = gpu ? &compiled.plan.programs[p].layout : nullptr;
    for (const graph::Node& node : program.nodes()) {
      if (!node.attributes.Has("axis")) continue;
      common.collectives[ops::AxisOf(node.attributes)].push_back(fmt::format(
          "{} @{} of program '{}', {} → {}", node.op->name, node.scope, program.name(),
          Arguments(program, node.inputs, layout), Arguments(program, node.outputs, layout)));
    }
  }
  if (gpu) {
    for (auto& [axis, lines] : common.collectives) {
      lines.push_back(fmt::format("an arena of {} bytes", compiled.plan.arena_bytes));
    }
  }
  for (const graph::Tensor* tensor :
       CarriedState(StepProgramsOf(compiled), compiled.options.KeptElsewhere())) {
    common.carried.push_back(
        fmt::format("{}: {} {}", tensor->name, tensor->type.ToString(), graph::Name(tensor->role)));
  }
  return common;
}

void RequireAgreement(runtime::World& world, const Mesh& mesh, const CompiledStep& compiled) {
  if (mesh.size() == 1) return;
  const CommonLines common = CommonLinesOf(compiled);
  std::vector<std::string> about = {kCarried};
  for (const MeshAxis& axis : mesh.axes()) about.push_back(axis.name);
  std::string hashes;
  for (const std::string& axis : about) {
    hashes += fmt::format("{:0{}x}", HashOf(LinesOf(common, axis)), kDigits);
  }
  const std::optional<Difference> found = FirstDifference(mesh, about, world.Gather(hashes));
  if (!found) return;

  // The lines themselves travel only now. All ranks have found the same difference.
  const std::vector<std::string> texts =
      world.Gather(fmt::format("{}", fmt::join(LinesOf(common, found->axis), "\n")));
  std::istringstream rank_lines(texts[static_cast<size_t>(found->rank)]),
      other_lines(texts[static_cast<size_t>(found->other)]);
  std::string has = "nothing more", other_has = has;
  for (std::string line, other; has == other_has;) {
    has = std::getline(rank_lines, line) ? line : "nothing more";
    other_has = std::getline(other_lines, other) ? other : "nothing more";
    if (!rank_lines && !other_lines) break;
  }
  const std::string what = found->axis == kCarried
                               ? "carried tensors"
                               : "collectives along the axis '" + found->axis + "'";
  throw UserError(
      fmt::format("rank {}: its {} differ from rank {}'s: it has {} where rank {} has {}; start "
                  "every rank with "
                  "the same program, run file and environment",
                  found->rank, what, found->other, has, found->other, other_has));
}

}  // namespace plimsoll::trainer
