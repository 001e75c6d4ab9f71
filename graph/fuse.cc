#include "graph/fuse.h"

namespace plimsoll::graph {

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
