#include "trainer/record/run_facts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/amounts.h"
#include "reports/timeline_views.h"
#include "runtime/cuda/gpu_report.h"
#include "trainer/plan/plan_page.h"
#include "trainer/record/run_summary.h"
#include "trainer/record/step_record.h"
#include "trainer/resolve/monitor.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;

ordered_json Facts(const config::RunConfig& config, const models::Model& model,
                   const runtime::Device& device, int ranks, const CompiledStep& compiled) {
  ordered_json facts = ordered_json::array();
  auto add = [&](const char* name, const std::string& value) {
    facts.push_back(ordered_json::array({name, value}));
  };
  if (!config.run.notes.empty()) add("notes", config.run.notes);
  if (!config.run.tags.empty()) add("tags", fmt::format("{}", fmt::join(config.run.tags, ", ")));
  add("started", fmt::format("{:%Y-%m-%d %H:%M:%S %z}", fmt::localtime(std::time(nullptr))));
  if (device.kind() == runtime::DeviceKind::kCpu) {
    add("device",
        fmt::format("{}, {}", device.name(), Counted(compiled.options.threads, "thread")));
  } else {
    add("device", device.name());
    add("driver", runtime::InspectGpus().driver_version);
  }
  std::vector<std::string> axes;
  for (const MeshAxis& axis : compiled.options.mesh.axes()) {
    axes.push_back(fmt::format("{} {}", axis.name, axis.ranks));
  }
  add("ranks", fmt::format("{} ({})", ranks, fmt::join(axes, " × ")));
  for (const ordered_json& fact : PlanFacts(model, compiled)) facts.push_back(fact);
  return facts;
}

}  // namespace

reports::RunFacts RunFactsOf(const config::RunConfig& config, const std::string& resolved_yaml,
                             const models::Model& model, const runtime::Device& device, int ranks,
                             const CompiledStep& compiled, const ordered_json& timeline,
                             std::vector<std::string> class_names) {
  reports::RunFacts facts;
  facts.title = config.run.name.empty() ? config.run.dir : config.run.name;
  if (!config.run.name.empty()) facts.subtitle = config.run.dir + ": ";
  facts.subtitle += fmt::format("{} with {} on {}", model.family(),
                                ParametersText(model, compiled.options), device.name());
  facts.steps = config.train.steps;
  facts.unit = UnitOfWork(compiled.options);
  for (const models::Objective& objective : compiled.objectives) {
    if (!objective.name.empty()) facts.objectives.push_back(objective.name);
  }
  for (const EvaluatedMetric& metric : EvaluatedMetrics(compiled.metrics)) {
    // Whether the metric has a plot separate from the loss curves.
    const bool apart = metric.info.declared || !metric.info.in_steps;
    if (apart && metric.info.scalar()) facts.metrics.push_back(metric.name);
    if (metric.info.rows.empty() || metric.info.type.shape.elements() > kMostRowElements) continue;
    facts.matrices.push_back({metric.name, metric.info.rows, metric.info.columns});
  }
  facts.class_names = std::move(class_names);
  const Monitor monitor = MonitorFrom(config, compiled.metrics);
  facts.monitor = monitor.metric.name;
  facts.larger_is_better = monitor.larger_is_better;
  facts.facts = Facts(config, model, device, ranks, compiled);
  facts.config = resolved_yaml;
  facts.stack = reports::MemoryStack(timeline);
  facts.by_block = PeakByBlock(compiled.plan);
  facts.by_role = PeakByRole(compiled.plan);
  // The memory that was free when the run began is unknown now.
  using Base = config::MemorySize::Base;
  if (config.memory.budget && config.memory.budget->base != Base::kFree) {
    facts.arena_budget = ArenaBudget(config, compiled.plan);
  }
  return facts;
}

}  // namespace plimsoll::trainer
