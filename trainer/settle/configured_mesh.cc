#include "trainer/settle/configured_mesh.h"

#include <fmt/format.h>

#include "base/axes.h"
#include "trainer/config/resolve.h"

namespace plimsoll::trainer {

Mesh MeshFrom(const config::RunConfig& config) {
  return Mesh({DataAxis(config.parallel.data.value_or(1)), TensorAxis(config.parallel.tensor)});
}

Mesh MeshOfOne() { return MeshFrom({}); }

void CheckMesh(config::RunConfig& config, int64_t started) {
  const int64_t others = config::RanksBesideData(config);
  const int64_t asked = config::DataRanks(config, started);
  if (asked * others != started) {
    const bool tensor = config.parallel.tensor > 1 && !config.IsSet("parallel.data");
    throw config.Error(
        tensor ? "parallel.tensor" : "parallel.data",
        fmt::format("{} data × {} tensor × {} pipeline ranks need mpirun -np {}, but {} {} started",
                    asked, config.parallel.tensor, config.parallel.pipeline, asked * others,
                    started, started == 1 ? "rank was" : "ranks were"));
  }
  config.parallel.data = asked;
}

}  // namespace plimsoll::trainer
