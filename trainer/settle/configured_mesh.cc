#include "trainer/settle/configured_mesh.h"

#include "base/axes.h"
#include "trainer/config/resolve.h"

namespace plimsoll::trainer {

Mesh MeshFrom(const config::RunConfig& config) {
  return Mesh({DataAxis(config.parallel.data.value_or(1)), TensorAxis(config.parallel.tensor)});
}

Mesh MeshOfOne() { return MeshFrom({}); }

void CheckMesh(config::RunConfig& config, int64_t started) {
  config::RequireStarted(config, started);
  config.parallel.data = config::DataRanks(config, started);
}

}  // namespace plimsoll::trainer
