#include "trainer/settle/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "formats/json.h"
#include "graph/text.h"
#include "trainer/settle/from_config.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;

// FNV-1a.
uint64_t HashOf(std::string_view text, uint64_t hash = 0xcbf29ce484222325u) {
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// The choices of Settle(), for a rank that knows the configuration.
std::string Encode(const SettledRun& settled) {
  json retention = json::object();
  for (const auto& [objective, tensors] : settled.options.retention) {
    for (const auto& [tensor, kind] : tensors) {
      retention[objective][tensor] = std::string(graph::Name(kind));
    }
  }
  return json{{"micro_batch", settled.config.train.micro_batch},
              {"accumulate", settled.config.train.accumulate},
              {"on_host", settled.config.optimizer.place == config::OptimizerPlace::kHost},
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
  settled.config.train.micro_batch = made.RequireInt("micro_batch");
  settled.config.train.accumulate = made.RequireInt("accumulate");
  settled.config.optimizer.place =
      made.RequireBool("on_host") ? config::OptimizerPlace::kHost : config::OptimizerPlace::kDevice;
  settled.options = CompileFrom(settled.config, model);
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

void RequireSame(runtime::World& world, const std::string& text, const std::string& what) {
  const std::vector<std::string> all = world.Gather(fmt::format("{:016x}", HashOf(text)));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw UserError(
        fmt::format("rank {}: its {} differ from rank 0's; start every rank with the same program, "
                    "run file and environment",
                    rank, what));
  }
}

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

SettledRun Ranks::SettleOnFirst(const config::RunConfig& config, const models::Model& model) {
  if (size() == 1) return Settle(config, model);
  std::string text;
  if (first()) text = Encode(Settle(config, model));
  return Decode(world_.Broadcast(text), config, model);
}

std::string FingerprintOf(const CompiledStep& compiled) {
  uint64_t hash = HashOf("");
  for (size_t p = 0; p < compiled.programs.size(); ++p) {
    const graph::Program& program = *compiled.programs[p];
    hash = HashOf(graph::ToText(program), hash);
    // Memory that GPUs share lies at the same offsets on all ranks; views of a rank's own parts may
    // not.
    for (size_t id = 0; id < program.tensors().size(); ++id) {
      if (program.tensors()[id].alias) continue;
      const int64_t offset = compiled.plan.programs[p].layout.offset(static_cast<int>(id));
      hash = HashOf({reinterpret_cast<const char*>(&offset), sizeof(offset)}, hash);
    }
  }
  return fmt::format("{:016x} {} {}", hash, compiled.plan.arena_bytes,
                     compiled.plan.host_arena_bytes);
}

}  // namespace plimsoll::trainer
