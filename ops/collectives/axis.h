// How a node works with other ranks: along which axis of the mesh (base/mesh.h), which is its
// attribute "axis", and by which reduction.
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

// The reduction of an all-reduce: kMax if the attribute kReduction is kMaximum, kSum without that
// attribute. Throws InternalError on any other value.
inline constexpr std::string_view kReduction = "reduction";
inline constexpr std::string_view kMaximum = "max";
Reduction ReductionOf(const graph::Attributes& attributes);

// This rank's communicators, one for each axis of the mesh. nullptr for an axis along which this
// rank is alone; empty if the job has one rank.
using AxisCommunicators = ByAxis<Communicator*>;

// The communicator of the node's axis. nullptr: the node has no axis, or the rank is the only one
// of it. Throws InternalError when there are communicators, but none for the node's axis.
Communicator* CommunicatorFor(const graph::Attributes& attributes,
                              const AxisCommunicators& communicators);

// Throws an InternalError that names the axis when a node, or a view of a rank's own part, uses an
// axis that the mesh lacks.
void CheckAxes(const graph::Program& program, const Mesh& mesh);

}  // namespace plimsoll::ops
