#include "memory/decision_groups.h"

#include <algorithm>
#include <map>
#include <string>

#include "memory/cost_model.h"

namespace plimsoll::memory {

DecisionGroups GroupDecisions(const Variant& variant) {
  int blocks = 0;
  for (const Decision& decision : variant.decisions) blocks = std::max(blocks, decision.block + 1);
  DecisionGroups groups;
  groups.segments.resize(blocks + 1);
  for (size_t i = 0; i < variant.decisions.size(); ++i) {
    const int block = variant.decisions[i].block;
    groups.segments[block < 0 ? blocks : block].push_back(static_cast<int>(i));
  }
  const graph::Program& base = *variant.bases.front();
  std::map<std::string, int> known;
  for (int block = 0; block < blocks; ++block) {
    std::string text;
    for (int d : groups.segments[block]) {
      const Decision& decision = variant.decisions[d];
      text += SignatureOf(base.CallOf(base.nodes()[decision.node]).get()) +
              (decision.recompute ? "r" : "") + (decision.offload ? "o" : "") + ";";
    }
    groups.kinds.push_back(known.emplace(text, static_cast<int>(known.size())).first->second);
  }
  return groups;
}

}  // namespace plimsoll::memory
