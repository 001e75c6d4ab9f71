#include "trainer/plan/plan_page.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/amounts.h"
#include "base/version.h"
#include "graph/block.h"
#include "memory/report.h"
#include "reports/page.h"
#include "reports/timeline_views.h"
#include "trainer/plan/code_products.h"
#include "trainer/plan/memory_timeline.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;

// "block.3.attn" → {"block", 3}; "norm_f" → {"norm_f", -1}.
std::pair<std::string, int> BlockOf(const std::string& scope) {
  const std::string_view block = graph::BlockIn(scope);
  if (block.empty()) return {scope.empty() ? "step" : scope.substr(0, scope.find('.')), -1};
  const graph::BlockName name = graph::ParseBlock(block);
  return {name.kind, name.number};
}

ordered_json Bar(const std::string& name, const memory::BytesByRole& bytes) {
  ordered_json parts = ordered_json::object();
  for (size_t role = 0; role < bytes.size(); ++role) {
    if (bytes[role] == 0) continue;
    parts[std::string(graph::Name(static_cast<graph::Role>(role)))] = bytes[role];
  }
  return {{"name", name}, {"parts", std::move(parts)}};
}

}  // namespace

ordered_json PeakByBlock(const memory::MemoryPlan& plan) {
  std::map<std::pair<std::string, int>, memory::BytesByRole> blocks;
  for (const memory::LiveTensor& tensor : plan.peak_live) {
    blocks[BlockOf(tensor.scope)][static_cast<size_t>(tensor.role)] += tensor.bytes;
  }
  ordered_json bars = ordered_json::array();
  for (const auto& [block, bytes] : blocks) {
    const auto& [name, number] = block;
    bars.push_back(Bar(number < 0 ? name : fmt::format("{}.{}", name, number), bytes));
  }
  return bars;
}

ordered_json PeakByRole(const memory::MemoryPlan& plan) {
  ordered_json bars = ordered_json::array();
  for (size_t role = 0; role < memory::kRoles; ++role) {
    if (plan.bytes_by_role[role] == 0) continue;
    memory::BytesByRole bytes = {};
    bytes[role] = plan.bytes_by_role[role];
    bars.push_back(Bar(std::string(graph::Name(static_cast<graph::Role>(role))), bytes));
  }
  return bars;
}

std::string BatchText(const CompileOptions& options) {
  if (options.sequence == 1) return Counted(options.micro_batch, "sample");
  return fmt::format("{} of {}", Counted(options.micro_batch, "sequence"),
                     Counted(options.sequence, "token"));
}

ordered_json PlanFacts(const models::Model& model, const CompiledStep& compiled) {
  const CompileOptions& options = compiled.options;
  ordered_json facts = ordered_json::array();
  auto add = [&](const char* name, const std::string& value) {
    facts.push_back(ordered_json::array({name, value}));
  };
  add("program", fmt::format("plimsoll {} ({})", Version(), Commit()));
  add("model", fmt::format("{}, {}", model.family(), ParametersText(model, options)));
  add("batch", fmt::format("{} on a rank, {} a step", BatchText(options),
                           Counted(options.accumulate, "micro-step")));
  add("plan", memory::Summary(compiled.plan));
  if (options.amp.fp8.enabled) add("products", Text(CountCodeProducts(compiled)));
  for (const graph::PassReport& pass : compiled.passes) {
    if (pass.result.changed) {
      add("pass", fmt::format("{} in {}: {}", pass.pass, pass.program, pass.result.summary));
    }
  }
  return facts;
}

std::string PlanPage(const models::Model& model, const CompiledStep& compiled,
                     const std::string& title, const std::optional<int64_t>& arena_budget) {
  const ordered_json timeline = MemoryTimelineJson(compiled);
  ordered_json line = nullptr;
  if (arena_budget) line = {{"label", "budget"}, {"value", *arena_budget}};

  ordered_json plan = reports::PlanRectangles(timeline);
  plan.update(
      {{"type", "plan"},
       {"title", "The arena"},
       {"note",
        "Each tensor at its place, from its first node to its last. Wheel: zoom (with shift "
        "across only); drag: move; double click: all."},
       {"line", line}});
  ordered_json variants = ordered_json::array();
  variants.push_back({{"name", title}, {"timeline", reports::MemoryStack(timeline)}});
  auto bars = [](const char* heading, ordered_json of) {
    return ordered_json{{"type", "bars"},
                        {"title", heading},
                        {"unit", "bytes"},
                        {"width", "half"},
                        {"bars", std::move(of)}};
  };
  reports::Page page{title, "memory plan"};
  page.views = {std::move(plan),
                {{"type", "timeline"},
                 {"title", "Memory over a step"},
                 {"wide", true},
                 {"line", line},
                 {"variants", std::move(variants)}},
                bars("The peak by role", PeakByRole(compiled.plan)),
                bars("The peak by block", PeakByBlock(compiled.plan)),
                {{"type", "facts"}, {"title", "The plan"}, {"rows", PlanFacts(model, compiled)}}};
  return reports::Render(page);
}

}  // namespace plimsoll::trainer
