#include "trainer/config/rank_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace plimsoll::config {

int64_t NonDataRanks(const RunConfig& config) {
  return config.parallel.tensor_ranks() * config.parallel.pipeline;
}

int64_t DataRanks(const RunConfig& config, int64_t started) {
  if (config.parallel.open_mesh()) return 1;
  return config.parallel.data.value_or(std::max<int64_t>(1, started / NonDataRanks(config)));
}

void RequireStarted(const RunConfig& config, const RankCount& ranks) {
  const int64_t stages = config.parallel.pipeline;
  if (config.parallel.open_mesh()) {
    if (ranks.count % stages == 0) return;
    throw config.Error("parallel.pipeline",
                       fmt::format("{} stages do not divide {} ranks; give a number that does",
                                   stages, ranks.count));
  }
  const int64_t others = NonDataRanks(config), asked = DataRanks(config, ranks.count);
  if (asked * others == ranks.count) return;
  const char* key = "parallel.data";
  if (!config.parallel.data && config.parallel.pipeline > 1) key = "parallel.pipeline";
  if (!config.parallel.data && config.parallel.tensor_ranks() > 1) key = "parallel.tensor";
  const std::string option = ranks.option;
  const std::string contrast =
      option.empty()
          ? fmt::format("need mpirun -np {}, but {} {} started", asked * others, ranks.count,
                        ranks.count == 1 ? "rank was" : "ranks were")
          : fmt::format(
                "are {}, and {} asks for {}; give numbers that divide {}, or "
                "{} {}",
                asked * others, option, ranks.count, ranks.count, option, asked * others);
  throw config.Error(
      key, fmt::format("{} data × {} tensor × {} pipeline ranks {}", asked,
                       config.parallel.tensor_ranks(), config.parallel.pipeline, contrast));
}

}  // namespace plimsoll::config
