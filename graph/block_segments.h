// The segments by which BlocksFirst (graph/step_passes.h) orders nodes.
#pragma once

#include "graph/micro_step_order.h"

namespace plimsoll::graph {

Stages BlockSegments(const Program& program);

}  // namespace plimsoll::graph
