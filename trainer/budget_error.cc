#include "trainer/budget_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "trainer/solve.h"

namespace plimsoll::trainer {
namespace {

using config::CheckpointPolicy;
using config::RunConfig;

// One change to the run, as the user would write it.
struct Change {
  std::string key;  // "optimizer.state_dtype"; of several with one key the first that fits is told
  std::string value;  // "int8"
  std::function<void(RunConfig&)> make;

  std::string text() const { return key + ": " + value; }
};

std::vector<Change> Changes(const RunConfig& config) {
  std::vector<Change> changes;
  if (config.checkpointing.policy != CheckpointPolicy::kAuto) {
    changes.push_back({"checkpointing.policy", "auto",
                       [](RunConfig& run) { run.checkpointing.policy = CheckpointPolicy::kAuto; }});
  }
  // The sizes between the user's and the smallest, largest first.
  if (config.train.micro_batch > 1) {
    const int64_t whole = config.train.micro_batch * config.train.accumulate;
    for (int64_t size = config.train.micro_batch / 2; size >= 1; size /= 2) {
      if (whole % size != 0) continue;
      const int64_t accumulate = whole / size;
      changes.push_back({"train.micro_batch",
                         fmt::format("{} with train.accumulate: {}", size, accumulate),
                         [size, accumulate](RunConfig& run) {
                           run.train.micro_batch = size;
                           run.train.accumulate = accumulate;
                         }});
    }
  }
  if (config.optimizer.place == config::OptimizerPlace::kDevice) {
    changes.push_back({"optimizer.place", "host", [](RunConfig& run) {
                         run.optimizer.place = config::OptimizerPlace::kHost;
                       }});
  }
  for (config::StateDtype dtype : {config::StateDtype::kBf16, config::StateDtype::kInt8}) {
    if (config.optimizer.state_dtype >= dtype) continue;
    changes.push_back({"optimizer.state_dtype", ToString(dtype),
                       [dtype](RunConfig& run) { run.optimizer.state_dtype = dtype; }});
  }
  if (config.amp.dtype == config::Dtype::kFp32 || config.amp.dtype == config::Dtype::kTf32) {
    changes.push_back(
        {"amp.dtype", "bf16", [](RunConfig& run) { run.amp.dtype = config::Dtype::kBf16; }});
  }
  if (config.parallel.data.value_or(1) > 1) {
    for (int64_t stage = config.parallel.zero + 1; stage <= 3; ++stage) {
      changes.push_back({"parallel.zero", std::to_string(stage),
                         [stage](RunConfig& run) { run.parallel.zero = stage; }});
    }
  }
  if (config.parallel.tensor > 1 && !config.parallel.sequence) {
    changes.push_back(
        {"parallel.sequence", "true", [](RunConfig& run) { run.parallel.sequence = true; }});
  }
  return changes;
}

// The smallest arenas of a changed run; nothing where the change is impossible.
std::optional<memory::ExactPlan> SmallestOf(RunConfig config) {
  config.memory.budget.reset();
  config.memory.host_budget.reset();
  try {
    return SmallestPlan(config, std::numeric_limits<int64_t>::max(), true);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string LargestConsumer(const memory::MemoryPlan& plan) {
  size_t largest = 0;
  for (size_t role = 1; role < memory::kRoles; ++role) {
    if (plan.bytes_by_role[role] > plan.bytes_by_role[largest]) largest = role;
  }
  std::string name(graph::Name(static_cast<graph::Role>(largest)));
  std::replace(name.begin(), name.end(), '_', ' ');
  return fmt::format("{}, {}", name, FormatBytes(plan.bytes_by_role[largest]));
}

std::string List(const std::vector<std::string>& ways) {
  std::string list;
  for (size_t i = 0; i < ways.size(); ++i) {
    if (i > 0) list += i + 1 == ways.size() ? " or " : ", ";
    list += ways[i];
  }
  return list;
}

}  // namespace

void ThrowBudgetNotMet(const RunConfig& config, const memory::Budget& budget,
                       const memory::MemoryPlan& smallest) {
  const bool device = smallest.arena_bytes > budget.device;
  const std::string key = device ? "memory.budget" : "memory.host_budget";
  const int64_t line = device ? budget.process() : budget.host;
  const auto takes = [&](int64_t arena, int64_t host_arena) {
    return device ? budget.profile.ProcessBytes(arena) : host_arena;
  };
  const int64_t needed = takes(smallest.arena_bytes, smallest.host_arena_bytes);
  const auto fail = [&](const std::string& reason) {
    throw UserError(fmt::format("{}: {}: {}", config.Origin(key), key, reason),
                    ExitCode::kBudgetNotMet);
  };

  std::vector<std::string> ways;
  std::string closest;  // of the changes that don't suffice
  int64_t closest_bytes = needed;
  std::string fits;  // the key of the last change that does
  for (const Change& change : Changes(config)) {
    if (change.key == fits) continue;
    RunConfig changed = config;
    change.make(changed);
    const std::optional<memory::ExactPlan> plan = SmallestOf(changed);
    if (!plan) continue;
    const int64_t bytes = takes(plan->arena_bytes, plan->host_arena_bytes);
    if (plan->arena_bytes > budget.device || plan->host_arena_bytes > budget.host) {
      if (bytes < closest_bytes) {
        closest = change.text();
        closest_bytes = bytes;
      }
      continue;
    }
    fits = change.key;
    ways.push_back(fmt::format("{} ({})", change.text(), FormatBytes(bytes)));
  }
  std::string way_out = "it would fit with " + List(ways);
  if (ways.empty()) {
    way_out = "no single change makes it fit; raise the budget or make the model smaller";
    if (!closest.empty()) {
      way_out += fmt::format(" (the closest: {}, {})", closest, FormatBytes(closest_bytes));
    }
  }

  int64_t parameters = 0;
  for (const memory::PersistentTensor& tensor : smallest.persistent) {
    if (tensor.role == graph::Role::kParameter) parameters += tensor.bytes;
  }
  const bool fixed = !LeavesChoice(config);
  if (device && line < parameters) {
    fail(fmt::format("{} is less than the parameters alone ({}); {} needs {}; {}",
                     FormatBytes(line), FormatBytes(parameters),
                     fixed ? "the plan" : "the smallest plan", FormatBytes(needed), way_out));
  }
  std::string beside;  // the arena
  if (device && budget.profile.overhead_bytes() > 0) {
    beside =
        fmt::format("; {} of it beside the arena", FormatBytes(budget.profile.overhead_bytes()));
  }
  fail(fmt::format("{} ({} bytes); {} needs {} ({} bytes; the largest part: {}{}); {}",
                   FormatBytes(line), line, fixed ? "the plan" : "the smallest plan",
                   FormatBytes(needed), needed, LargestConsumer(smallest), beside, way_out));
  throw InternalError("unreachable");
}

}  // namespace plimsoll::trainer
