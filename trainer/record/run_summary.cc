#include "trainer/record/run_summary.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/axes.h"
#include "base/statistics.h"
#include "base/version.h"
#include "runtime/caching_allocator/caching_allocation.h"
#include "runtime/cpu/processor.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/process_memory.h"
#include "trainer/plan/plan_json.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;

template <typename T>
ordered_json OrNull(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

void AddMachine(const Session& session, ordered_json& json) {
  json["device"] = session.device().name();
  json["device_kind"] = Name(session.device().kind());
  json["driver"] = nullptr;
  json["clock_mhz"] = nullptr;
  if (session.device().kind() == runtime::DeviceKind::kCpu) {
    json["clock_mhz"] = OrNull(runtime::ProcessorMhz());
  } else if (const auto meter = runtime::GpuMeter::Find()) {
    json["driver"] = meter->DriverVersion();
    json["clock_mhz"] = OrNull(meter->ClockMhz());
  }
}

void AddSpeed(const RunResult& result, ordered_json& json) {
  const CompiledStep& compiled = result.session.compiled();
  const double tokens = TokensPerStep(result);
  // FLOPs and tokens per second are sums over all ranks.
  const double model_flops = ModelFlopsPerToken(compiled) * tokens;
  const double recomputed = RecomputeFlops(compiled);
  const std::vector<double> steps = MeasuredSteps(result.metrics, kWarmupSteps);
  if (!steps.empty()) {
    const Quartiles ms = QuartilesOf(steps);
    json["step_ms"] = ms.median;
    json["step_ms_low"] = ms.low;
    json["step_ms_high"] = ms.high;
    json["tokens_per_s"] = tokens / ms.median * 1e3;
  }
  json["data_ms"] = nullptr;
  if (const std::vector<double> data = MeasuredDataTimes(result.metrics, kWarmupSteps);
      !data.empty()) {
    json["data_ms"] = QuartilesOf(data).median;
  }
  json["predicted_step_ms"] = result.predicted_step_seconds
                                  ? ordered_json(*result.predicted_step_seconds * 1e3)
                                  : ordered_json(nullptr);
  json["tokens_per_step"] = std::llround(tokens);
  json["model_flops_per_step"] = model_flops;
  json["recompute_flops_per_step"] = recomputed * result.ranks;
  json["recompute_share"] = compiled.flops_per_step > 0 ? recomputed / compiled.flops_per_step : 0;
  json["peak_flops"] = PeakFlops(compiled, result.session.device()) * result.ranks;
}

// Adds the energy of all ranks together. Unmeasured values are null, and energy_problem says why.
void AddEnergy(const RunResult& result, ordered_json& json) {
  json["joules_per_step"] = json["joules_per_token"] = json["watts"] = nullptr;
  json["energy_counts"] =
      result.energy_counts.empty() ? ordered_json(nullptr) : ordered_json(result.energy_counts);
  json["energy_problem"] = nullptr;
  if (const std::optional<Energy> mean = MeanEnergy(result.metrics)) {
    json["joules_per_step"] = mean->joules_per_step;
    json["joules_per_token"] = mean->joules_per_token;
    json["watts"] = mean->watts;
  } else if (!result.energy_problem.empty()) {
    json["energy_problem"] = result.energy_problem;
  } else {
    json["energy_problem"] =
        fmt::format("the run had no {} seconds of steps after the first {} and without a break",
                    EnergyWindows::kShortest.count(), kWarmupSteps);
  }
}

void AddMemory(const RunResult& result, ordered_json& json) {
  const CompiledStep& compiled = result.session.compiled();
  const memory::MemoryPlan& plan = compiled.plan;
  json["budget_bytes"] = OrNull(result.budget_bytes);
  json["arena_budget_bytes"] = OrNull(result.arena_budget_bytes);
  json["arena_bytes"] = plan.arena_bytes;
  json["used_bytes"] = OrNull(result.used_bytes);
  json["max_live_bytes"] = plan.max_live_bytes;
  json["host_arena_bytes"] = plan.host_arena_bytes;
  json["host_input_bytes"] = plan.host_input_bytes;
  json["predicted_process_bytes"] = OrNull(result.predicted_process_bytes);
  json["process_bytes"] = OrNull(result.process_bytes);
  json["resident_bytes"] = runtime::MeasureProcessMemory().peak_resident_bytes;
  json["allocator"] = config::ToString(result.config.memory.allocator);
  json["reserved_bytes"] = json["predicted_reserved_bytes"] = nullptr;
  const int64_t replayed = runtime::Replay(compiled.planned()).device.peak_reserved;
  if (const runtime::DeviceMemory& memory = result.session.memory(); !memory.planned()) {
    json["reserved_bytes"] = memory.stats(graph::Place::kDevice).peak_reserved;
    json["predicted_reserved_bytes"] = replayed;
  }
  json["caching_replay_bytes"] = replayed;
  json["bytes_by_role"] = ByRoleJson(plan.bytes_by_role);
  json["offloaded_bytes_per_step"] = OffloadedBytes(compiled);
}

}  // namespace

int64_t OffloadedBytes(const CompiledStep& compiled) {
  return static_cast<int64_t>(
      OverStep(compiled, [](const graph::Program& program, const graph::Node& node) {
        if (node.op->transfer != graph::Transfer::kCopyStart) return 0.0;
        const graph::Tensor& copy = program.tensor(node.outputs[0]);
        return copy.place == graph::Place::kHost ? static_cast<double>(copy.type.bytes()) : 0.0;
      }));
}

double TokensPerStep(const RunResult& result) {
  return result.tokens_per_step.value_or(TokensPerStep(result.session.compiled().options));
}

ordered_json RunSummary(const RunResult& result) {
  const ParameterCounts counts = CountParameters(result.model, result.session.compiled().options);
  ordered_json json = {
      {"name", result.config.run.name},
      {"tags", result.config.run.tags},
      {"notes", result.config.run.notes},
      {"version", Version()},
      {"commit", Commit()},
      {"ranks", result.ranks},
      {"threads", result.session.compiled().options.threads},
      {"parameters", counts.all},
      {"trained_parameters", counts.trained},
      {"steps", result.metrics.loss.size()},
      {"loss", nullptr},
      {"eval_loss", nullptr},
      {"best_eval_loss", nullptr},
      {"best_eval_step", nullptr},
      {"skipped", result.metrics.skipped},
      {"steps_without_targets", result.metrics.without_targets},
      {"chosen", result.chosen.empty() ? ordered_json(nullptr) : ordered_json(result.chosen)},
      {"no_effect", nullptr}};
  if (const auto refused = RefusedKeyOf(result.session.compiled())) {
    json["no_effect"] = Text(*refused);
  }
  if (const auto best = BestEvaluation(result.metrics)) {
    json["best_eval_loss"] = best->loss;
    json["best_eval_step"] = best->step;
  }
  if (result.monitored) {
    json["monitor"] = result.monitored->metric;
    json["best_monitored"] = result.monitored->best;
    json["best_monitored_step"] = result.monitored->step;
  }
  if (!result.metrics.loss.empty()) json["loss"] = result.metrics.loss.back();
  if (!result.metrics.evaluations.empty()) {
    json["eval_loss"] = result.metrics.evaluations.back().loss;
  }
  AddMachine(result.session, json);
  AddSpeed(result, json);
  AddEnergy(result, json);
  AddMemory(result, json);
  return json;
}

}  // namespace plimsoll::trainer
