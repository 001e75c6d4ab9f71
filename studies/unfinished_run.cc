#include "studies/unfinished_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/folder_lock.h"
#include "studies/results.h"
#include "trainer/config/load.h"

namespace plimsoll::studies {

using nlohmann::ordered_json;

std::string DescribeUnfinished(const std::string& directory, const trainer::RunMetrics& metrics) {
  const config::RunConfig config = config::Load(directory + "/config.yaml").config;
  const std::string steps =
      fmt::format("{} of {} steps", metrics.loss.size(), config.train.StepsToMake());
  if (const std::optional<std::string> holder = LockHolder(directory)) {
    return fmt::format("{} so far; {} trains there", steps, *holder);
  }
  std::error_code error;
  const bool snapshots = std::filesystem::exists(directory + "/snapshots", error);
  return "stopped after " + steps + (snapshots ? "; it left snapshots" : "");
}

ordered_json SummaryOfUnfinished(const std::string& directory, const trainer::RunMetrics& metrics) {
  ordered_json summary = ordered_json::object();
  const ordered_json plan = ReadJson(directory + "/plan.json");
  if (!plan.is_object()) return summary;
  for (const char* key : {"arena_bytes", "max_live_bytes", "host_arena_bytes", "bytes_by_role",
                          "predicted_step_ms", "threads", "parameters", "trained_parameters"}) {
    if (plan.contains(key)) summary[key] = plan.at(key);
  }
  summary["predicted_process_bytes"] = plan.value("process_bytes", ordered_json(nullptr));
  if (metrics.most_gpu_bytes) summary["process_bytes"] = *metrics.most_gpu_bytes;
  // With several ranks their number is not known.
  if (!metrics.most_rank_bytes) {
    summary["tokens_per_step"] = plan.value("micro_batch", 0.0) * plan.value("sequence", 0.0) *
                                 plan.value("accumulate", 0.0);
  }
  if (plan.contains("caching")) {
    summary["caching_replay_bytes"] =
        plan.at("caching").value("reserved_bytes", ordered_json(nullptr));
  }
  return summary;
}

}  // namespace plimsoll::studies
