// By node: the segment by which BlocksFirst (graph/step_passes.h) orders it.
#pragma once

#include "graph/micro_step_order.h"

namespace plimsoll::graph {

Stages BlockSegments(const Program& program);

}  // namespace plimsoll::graph
