// The axis of the mesh (base/mesh.h) along which a node works with other ranks: its attribute
// "axis".
#pragma once

#include <string>

#include "base/mesh.h"
#include "graph/attributes.h"
#include "graph/program.h"
#include "ops/collectives/communicator.h"

namespace plimsoll::ops {

// Throws InternalError when the node has no axis.
const std::string& AxisOf(const graph::Attributes& attributes);

// This rank's communicators, one for each axis of the mesh; nullptr: the rank is alone along that
// axis. Empty: it is alone along every axis.
using AxisCommunicators = ByAxis<Communicator*>;

// The communicator of the node's axis; nullptr: it has no axis, or the rank is alone there. Throws
// InternalError when there are communicators, but none for the node's axis.
Communicator* CommunicatorFor(const graph::Attributes& attributes,
                              const AxisCommunicators& communicators);

// Throws an InternalError that names the axis when a node or a rank's own part uses one that the
// mesh lacks.
void CheckAxes(const graph::Program& program, const Mesh& mesh);

}  // namespace plimsoll::ops
