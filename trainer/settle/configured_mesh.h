// The mesh of ranks that a configuration asks for.
#pragma once

#include <cstdint>

#include "base/mesh.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The axes that there are, in their order, each with as many ranks as the configuration gives it;
// parallel.data: auto has one. All that is compiled, run, written and printed follows this list.
Mesh MeshFrom(const config::RunConfig& config);

// The same axes, with one rank along each.
Mesh MeshOfOne();

// UserError (parallel.data or parallel.tensor) unless the mesh that the file asks for has as many
// ranks as were started; the message has the mpirun that would do. Otherwise parallel.data is what
// it comes to.
void CheckMesh(config::RunConfig& config, int64_t started);

}  // namespace plimsoll::trainer
