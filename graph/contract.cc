#include "graph/contract.h"

#include <array>

namespace plimsoll::graph {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Fact::kScratched) + 1> kNames = {
    "typed",   "marked",     "split",      "cached",  "differentiated", "quantized",  "updated",
    "divided", "cut",        "gathered",   "reduced", "placed",         "simplified", "fused",
    "tagged",  "recomputed", "prefetched", "joined",  "ordered",        "moved",      "temporary",
    "sliced",  "resident",   "offloaded",  "by loss", "scratched"};

}  // namespace

std::string_view Name(Fact fact) { return kNames.at(static_cast<size_t>(fact)); }

std::string Text(const Facts& facts) {
  if (facts.size() > 1 && facts == FactsFrom(*facts.begin())) {
    return "all from " + std::string(Name(*facts.begin())) + " on";
  }
  std::string text;
  for (const Fact fact : facts) {
    if (!text.empty()) text += ", ";
    text += Name(fact);
  }
  return text.empty() ? "nothing" : text;
}

Facts FactsFrom(Fact first) {
  Facts facts;
  for (auto i = static_cast<int>(first); i <= static_cast<int>(Fact::kScratched); ++i) {
    facts.insert(static_cast<Fact>(i));
  }
  return facts;
}

}  // namespace plimsoll::graph
