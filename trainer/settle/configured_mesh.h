// The mesh of ranks that a configuration asks for.
#pragma once

#include <cstdint>

#include "base/mesh.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The mesh's axes in their fixed order, each with as many ranks as the configuration gives it;
// parallel.data: auto counts as one. Everything that is compiled, run, written and printed follows
// this list.
Mesh MeshFrom(const config::RunConfig& config);

// The same axes, with one rank along each.
Mesh MeshOfOne();

// config::RequireStarted, then sets parallel.data to its number of ranks.
void CheckMesh(config::RunConfig& config, int64_t started);

}  // namespace plimsoll::trainer
