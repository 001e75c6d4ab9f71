#include "trainer/plan/plan_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/version.h"
#include "runtime/caching_allocator/caching_allocation.h"
#include "trainer/config/schema.h"
#include "trainer/plan/code_products.h"
#include "trainer/plan/plan_decisions.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/run_costs.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;

ordered_json ProgramJson(const graph::Program& program, const memory::ProgramPlan& plan) {
  double flops = 0, bytes = 0;
  for (const graph::Node& node : program.nodes()) {
    const graph::Cost cost = graph::CostOf(program.CallOf(node).get());
    flops += cost.flops;
    bytes += cost.bytes;
  }
  ordered_json json = {{"name", plan.name},
                       {"nodes", program.nodes().size()},
                       {"flops", flops},
                       {"bytes_moved", bytes},
                       {"max_live_bytes", plan.max_live_bytes},
                       {"temporary_bytes", plan.temporary_bytes}};
  if (plan.peak_node >= 0) {
    const graph::Node& node = program.nodes()[plan.peak_node];
    json["peak"] = {{"node", plan.peak_node},
                    {"op", node.op->name},
                    {"scope", node.scope},
                    {"phase", graph::Name(node.phase)}};
  }
  return json;
}

ordered_json CachingJson(const CompiledStep& compiled) {
  const runtime::ReplayResult replay = runtime::Replay(compiled.planned());
  return {{"allocated_bytes", replay.device.peak_allocated},
          {"reserved_bytes", replay.device.peak_reserved},
          {"fragmentation", replay.device.fragmentation()},
          {"segments", replay.device.segments},
          {"host_reserved_bytes", replay.host.peak_reserved}};
}

// Every key that applies, as in a run file, including the keys of single objectives.
ordered_json ConfigJson(const config::RunConfig& config) {
  auto json = ordered_json::object();
  for (const config::Key& key : config::Schema()) {
    if (!key.Applies(config)) continue;
    if (std::string text = key.Text(config); !text.empty()) json[key.path] = std::move(text);
  }
  for (const auto& [name, objective] : config.objectives) {
    for (const auto& [path, text] : objective.own) {
      json[fmt::format("{}.{}.{}", config::kObjectives, name, path)] = text;
    }
  }
  return json;
}

// The keys that a file or the command line gives.
ordered_json GivenJson(const config::RunConfig& config) {
  auto json = ordered_json::array();
  for (const auto& [key, origin] : config.origins) json.push_back(key);
  return json;
}

}  // namespace

ordered_json ByRoleJson(const memory::BytesByRole& bytes) {
  ordered_json json;
  for (size_t role = 0; role < bytes.size(); ++role) {
    json[std::string(graph::Name(static_cast<graph::Role>(role)))] = bytes[role];
  }
  return json;
}

ordered_json PlanObject(const config::RunConfig& config, const models::Model& model,
                        const CompiledStep& compiled, const memory::CostModel& cost,
                        double predicted_seconds, const ordered_json& choices) {
  const memory::MemoryPlan& plan = compiled.plan;
  const CompileOptions& options = compiled.options;
  ordered_json json = {
      {"arena_bytes", plan.arena_bytes},
      {"max_live_bytes", plan.max_live_bytes},
      {"persistent_bytes", plan.persistent_bytes},
      {"fragmentation", plan.fragmentation},
      {"host_arena_bytes", plan.host_arena_bytes},
      {"host_input_bytes", plan.host_input_bytes},
      {"device", runtime::Name(options.device)},
      {"process_bytes", nullptr},
      {"process_parts", nullptr},
      {"allocator", config::ToString(config.memory.allocator)},
      {"caching", CachingJson(compiled)},
      {"bytes_by_role", ByRoleJson(plan.bytes_by_role)},
      {"bytes_by_scope", plan.bytes_by_scope},
      {"parameters", CountParameters(model, options).all},
      {"trained_parameters", CountParameters(model, options).trained},
      {"micro_batch", options.micro_batch},
      {"sequence", options.sequence},
      {"accumulate", options.accumulate},
      {"threads", options.threads},
      {"flops_per_step", compiled.flops_per_step},
      {"predicted_step_ms", predicted_seconds * 1e3},
      {"rates", RatesText(config, cost)},
      {"choices", choices},
      {"decisions", DecisionsJson(compiled)},
      {"version", fmt::format("{} ({})", Version(), Commit())},
      {"config", ConfigJson(config)},
      {"given", GivenJson(config)},
  };
  if (options.amp.fp8.enabled) {
    json["eight_bit_products"] = CodeProductsJson(CountCodeProducts(compiled));
  }
  if (options.device == runtime::DeviceKind::kCuda) {
    const memory::DeviceProfile profile = ProfileFrom(config);
    json["process_bytes"] = profile.ProcessBytes(plan.arena_bytes);
    json["process_parts"] = {{"arena", plan.arena_bytes},
                             {"context", profile.context_bytes},
                             {"code", profile.code_bytes},
                             {"libraries", profile.libraries_bytes},
                             {"communicators", profile.communicators_bytes},
                             {"channels", profile.channels},
                             {"graphs", profile.graphs_bytes},
                             {"reserve", profile.reserve_bytes},
                             {"gpu", profile.device},
                             {"measured", profile.measured}};
  }
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    json["programs"].push_back(ProgramJson(*compiled.programs[i], plan.programs[i]));
  }
  for (const graph::PassReport& report : compiled.passes) {
    json["passes"].push_back({{"program", report.program},
                              {"pass", report.pass},
                              {"changed", report.result.changed},
                              {"summary", report.result.summary}});
  }
  return json;
}

}  // namespace plimsoll::trainer
