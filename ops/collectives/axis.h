// How a node works with other ranks: along which axis of the mesh (base/mesh.h), its attribute
// "axis", and by which reduction.
#pragma once

#include <string>
#include <string_view>

#include "base/mesh.h"
#include "graph/attributes.h"
#include "graph/program.h"
#include "ops/collectives/communicator.h"

namespace plimsoll::ops {

// Throws InternalError when the node has no axis.
const std::string& AxisOf(const graph::Attributes& attributes);

// The reduction of an all-reduce: kMax with the attribute kReduction, which then is kMaximum; kSum
// without. Throws InternalError when it is another one.
inline constexpr std::string_view kReduction = "reduction";
inline constexpr std::string_view kMaximum = "max";
Reduction ReductionOf(const graph::Attributes& attributes);

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
