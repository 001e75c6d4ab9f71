#include "trainer/run_facts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/version.h"
#include "memory/report.h"
#include "reports/memory_stack.h"
#include "runtime/gpu_report.h"
#include "trainer/progress.h"
#include "trainer/solve.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;

// "block.3.attn" → {"block", 3}; "norm_f" → {"norm_f", -1}.
std::pair<std::string, int> BlockOf(const std::string& scope) {
  const size_t dot = scope.find('.');
  const std::string first = scope.substr(0, dot);
  const bool numbered = dot != std::string::npos && std::isdigit(scope[dot + 1]) != 0;
  return {first.empty() ? "step" : first, numbered ? std::atoi(scope.c_str() + dot + 1) : -1};
}

ordered_json Bar(const std::string& name, const memory::BytesByRole& bytes) {
  ordered_json parts = ordered_json::object();
  for (size_t role = 0; role < bytes.size(); ++role) {
    if (bytes[role] == 0) continue;
    parts[std::string(graph::Name(static_cast<graph::Role>(role)))] = bytes[role];
  }
  return {{"name", name}, {"parts", std::move(parts)}};
}

ordered_json ByBlock(const memory::MemoryPlan& plan) {
  std::map<std::pair<std::string, int>, memory::BytesByRole> blocks;
  for (const memory::LiveTensor& tensor : plan.programs.at(plan.peak_program).peak_live) {
    blocks[BlockOf(tensor.scope)][static_cast<size_t>(tensor.role)] += tensor.bytes;
  }
  ordered_json bars = ordered_json::array();
  for (const auto& [block, bytes] : blocks) {
    const auto& [name, number] = block;
    bars.push_back(Bar(number < 0 ? name : fmt::format("{}.{}", name, number), bytes));
  }
  return bars;
}

ordered_json ByRole(const memory::MemoryPlan& plan) {
  ordered_json bars = ordered_json::array();
  for (size_t role = 0; role < memory::kRoles; ++role) {
    if (plan.bytes_by_role[role] == 0) continue;
    memory::BytesByRole bytes = {};
    bytes[role] = plan.bytes_by_role[role];
    bars.push_back(Bar(std::string(graph::Name(static_cast<graph::Role>(role))), bytes));
  }
  return bars;
}

ordered_json Facts(const config::RunConfig& config, const models::Model& model,
                   const runtime::Device& device, int ranks, const CompiledStep& compiled) {
  const CompileOptions& options = compiled.options;
  ordered_json facts = ordered_json::array();
  auto add = [&](const char* name, const std::string& value) {
    facts.push_back(ordered_json::array({name, value}));
  };
  add("program", fmt::format("plimsoll {} ({})", Version(), Commit()));
  add("started", fmt::format("{:%Y-%m-%d %H:%M:%S %z}", fmt::localtime(std::time(nullptr))));
  if (device.kind() == runtime::DeviceKind::kCpu) {
    add("device", fmt::format("{}, {} threads", device.name(), options.threads));
  } else {
    add("device", device.name());
    add("driver", runtime::InspectGpus().driver_version);
  }
  add("ranks", fmt::format("{} (data {} × tensor {})", ranks, ranks / config.parallel.tensor,
                           config.parallel.tensor));
  add("model", fmt::format("{}, {} parameters", models::Name(model.spec().family),
                           FormatCount(static_cast<double>(model.parameter_count()))));
  add("batch", fmt::format("{} sequences of {} tokens on a rank, {} micro-steps a step",
                           options.micro_batch, options.sequence, options.accumulate));
  add("plan", memory::Summary(compiled.plan));
  for (const graph::PassReport& pass : compiled.passes) {
    if (pass.result.changed) {
      add("pass", fmt::format("{} in {}: {}", pass.pass, pass.program, pass.result.summary));
    }
  }
  return facts;
}

}  // namespace

reports::RunFacts RunFactsOf(const config::RunConfig& config, const std::string& resolved_yaml,
                             const models::Model& model, const runtime::Device& device, int ranks,
                             const CompiledStep& compiled, const ordered_json& timeline) {
  reports::RunFacts facts;
  facts.title = config.run.dir;
  facts.subtitle =
      fmt::format("{} with {} parameters on {}", models::Name(model.spec().family),
                  FormatCount(static_cast<double>(model.parameter_count())), device.name());
  facts.steps = config.train.steps;
  facts.facts = Facts(config, model, device, ranks, compiled);
  facts.config = resolved_yaml;
  facts.stack = reports::MemoryStack(timeline);
  facts.by_block = ByBlock(compiled.plan);
  facts.by_role = ByRole(compiled.plan);
  // What was free when the run began is not known any more.
  using Base = config::MemorySize::Base;
  if (config.memory.budget && config.memory.budget->base != Base::kFree) {
    facts.arena_budget = BudgetOf(config).device;
  }
  return facts;
}

}  // namespace plimsoll::trainer
