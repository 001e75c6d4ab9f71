// The axis of the mesh (base/mesh.h) along which a node works with other ranks: its attribute
// "axis".
#pragma once

#include <string>

#include "base/mesh.h"
#include "graph/attributes.h"
#include "graph/program.h"
#include "ops/communicator.h"

namespace plimsoll::ops {

// InternalError when the node has none.
const std::string& AxisOf(const graph::Attributes& attributes);

// This rank's communicators, one for each axis of the mesh; nullptr: the rank is alone there. None
// at all: it is alone along every axis.
using AxisCommunicators = ByAxis<Communicator*>;

// The communicator of the node's axis; nullptr: it has no axis, or the rank is alone there.
// InternalError when there are communicators of axes, and its own is none of them.
Communicator* CommunicatorFor(const graph::Attributes& attributes,
                              const AxisCommunicators& communicators);

// InternalError, naming it, when a node or a rank's own part is along an axis that the mesh lacks.
void CheckAxes(const graph::Program& program, const Mesh& mesh);

}  // namespace plimsoll::ops
