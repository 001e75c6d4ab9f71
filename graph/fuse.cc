#include "graph/fuse.h"

#include <algorithm>

namespace plimsoll::graph {

bool Fuse::preserves_numerics() const {
  return std::all_of(fusions_.begin(), fusions_.end(),
                     [](const Fusion& fusion) { return fusion.keeps_bits; });
}

PassResult Fuse::Run(Program& program) {
  PassResult result;
  for (const Fusion& fusion : fusions_) {
    const int count = fusion.apply(program);
    if (count == 0) continue;
    result.changed = true;
    if (!result.summary.empty()) result.summary += ", ";
    result.summary += fusion.name + " ×" + std::to_string(count);
  }
  if (result.changed) {
    program.DropUnusedTensors();
  } else {
    result.summary = "nothing to fuse";
  }
  return result;
}

}  // namespace plimsoll::graph
