#include "trainer/settle/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "formats/json.h"
#include "runtime/process_memory.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/host_memory.h"
#include "trainer/settle/knobs.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;

// The choices of Settle(), for a rank that knows the configuration.
std::string Encode(const config::RunConfig& config, const SettledRun& settled) {
  json knobs = json::object();
  for (const Knob& knob : Knobs()) {
    const std::string value = knob.get(settled.config);
    if (value != knob.get(config)) knobs[knob.key] = value;
  }
  json retention = json::object();
  for (const auto& [objective, tensors] : settled.options.retention) {
    for (const auto& [tensor, kind] : tensors) {
      retention[objective][tensor] = std::string(graph::Name(kind));
    }
  }
  return json{{"knobs", knobs},
              {"gpu", settled.options.gpu},
              {"explicit",
               settled.options.checkpointing.policy == checkpointing::Options::Policy::kExplicit},
              {"retention", retention},
              {"chosen", settled.chosen}}
      .dump();
}

SettledRun Decode(const std::string& text, const config::RunConfig& config,
                  const models::Model& model) {
  const formats::JsonObject made = formats::JsonObject::FromText(text, "rank 0's plan");
  SettledRun settled{config, {}, made.RequireString("chosen")};
  const formats::JsonObject knobs = made.RequireObject("knobs");
  const std::vector<std::string> changed = knobs.Keys();
  for (const Knob& knob : Knobs()) {
    const bool decided = std::ranges::find(changed, knob.key) != changed.end();
    if (decided) knob.set(settled.config, knobs.RequireString(knob.key));
  }
  settled.options = CompileFrom(settled.config, model);
  settled.options.gpu = made.RequireString("gpu");  // all ranks have one program
  if (!made.RequireBool("explicit")) return settled;
  settled.options.checkpointing = {};
  settled.options.checkpointing.policy = checkpointing::Options::Policy::kExplicit;
  const formats::JsonObject objectives = made.RequireObject("retention");
  for (const std::string& objective : objectives.Keys()) {
    const formats::JsonObject retention = objectives.RequireObject(objective);
    for (const std::string& tensor : retention.Keys()) {
      const auto kind = graph::ParseRetention(retention.RequireString(tensor));
      if (!kind) retention.Fail(tensor, "is no way to keep an activation");
      settled.options.retention[objective][tensor] = *kind;
    }
  }
  return settled;
}

}  // namespace

std::string Ranks::FirstProblem(FunctionRef<void()> action) {
  std::string here;
  try {
    action();
  } catch (const UserError& error) {
    here = error.what();
  }
  const std::vector<std::string> all = world_.Gather(here);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) {
      return size() == 1 ? all[rank] : fmt::format("rank {}: {}", rank, all[rank]);
    }
  }
  return "";
}

bool Ranks::Any(bool here) {
  const std::vector<std::string> all = world_.Gather(here ? "1" : "0");
  return std::ranges::find(all, "1") != all.end();
}

void Ranks::RequireHostMemory(const CompiledStep& compiled) {
  const runtime::DeviceKind device = compiled.options.device;
  const int64_t on_device =
      device == runtime::DeviceKind::kCpu ? compiled.plan.arena_bytes : int64_t{0};
  trainer::RequireHostMemory(world_, on_device + compiled.plan.host_arena_bytes, device,
                             runtime::MeasureAvailableMemory());
}

SettledRun Ranks::SettleOnFirst(const config::RunConfig& config, const models::Model& model) {
  if (size() == 1) return Settle(config, model);
  std::string text;
  if (first()) text = Encode(config, Settle(config, model));
  return Decode(world_.Broadcast(text), config, model);
}

}  // namespace plimsoll::trainer
