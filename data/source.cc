#include "data/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"

namespace plimsoll::data {
namespace {

std::vector<SourceKind>& Registry() {
  static std::vector<SourceKind> kinds;
  return kinds;
}

}  // namespace

std::string Source::Describe(const Reading& reading) const {
  return fmt::format("data: {} a step\n", Counted(reading.samples_per_step, "sample"));
}

bool FilledInput::Fits(const graph::Slot& slot) const {
  if (slot.name != name) return false;
  return ranks.empty() || std::ranges::find(ranks, slot.type.shape.rank()) != ranks.end();
}

Setting WorkersSetting() {
  return {
      .name = "workers",
      .doc =
          "Threads that prepare the samples of the next steps while one runs; 0: each step "
          "prepares its own. The samples are the same (docs/recipes.md).",
      .derived =
          "0; on a GPU the rank's cores but one, 1 to 32, and at most 4 for each sample of a batch",
      .min = 0,
      .max = 256};
}

SourceRegistration::SourceRegistration(SourceKind kind) {
  std::vector<SourceKind>& kinds = Registry();
  if (FindSource(kind.name) != nullptr) {
    throw InternalError(fmt::format("two sources of data are called '{}'", kind.name));
  }
  const auto behind = std::ranges::upper_bound(kinds, kind.name, {}, &SourceKind::name);
  kinds.insert(behind, std::move(kind));
}

const std::vector<SourceKind>& Sources() { return Registry(); }

const SourceKind* FindSource(std::string_view name) {
  const auto found = std::ranges::find(Sources(), name, &SourceKind::name);
  return found == Sources().end() ? nullptr : &*found;
}

std::vector<std::string> SourcesThatFill(std::span<const graph::Slot> slots) {
  std::vector<std::string> names;
  for (const SourceKind& kind : Sources()) {
    const bool all = std::ranges::all_of(slots, [&](const graph::Slot& slot) {
      return std::ranges::any_of(kind.fills, [&](const auto& input) { return input.Fits(slot); });
    });
    if (all) names.push_back(kind.name);
  }
  return names;
}

}  // namespace plimsoll::data
