#include "memory/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/amounts.h"
#include "base/bytes.h"
#include "memory/lifetimes.h"

namespace plimsoll::memory {
namespace {

using graph::Place;
using graph::Program;
using graph::Role;

constexpr size_t kTop = 10;  // rows of a table
constexpr char kPersistent[] = "(persistent tensors)";
constexpr char kNoScope[] = "(no scope)";

std::string Percent(double part, double whole) {
  return whole <= 0 ? "" : fmt::format("{:.1f} %", 100 * part / whole);
}

std::string Percent(int64_t part, int64_t whole) {
  return Percent(static_cast<double>(part), static_cast<double>(whole));
}

std::string Fragmentation(double fragmentation) {
  return fmt::format("{:.2f} %", std::max(0.0, 100 * fragmentation));
}

// The following functions make the report of a plan.

void Line(std::string& text, std::string_view indent, std::string_view name, int64_t bytes,
          int64_t whole) {
  text += fmt::format("{}{:<36} {:>10}  {}\n", indent, name, FormatBytes(bytes),
                      whole == 0 ? "" : fmt::format("{:>7}", Percent(bytes, whole)));
}

template <typename Key>
std::vector<std::pair<Key, int64_t>> LargestFirst(const std::map<Key, int64_t>& sums) {
  std::vector<std::pair<Key, int64_t>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

// "program 'step', node 812 of 1630: gelu_backward in block.11.mlp, backward".
std::string PeakPlace(const ProgramPlan& program) {
  if (program.peak_node < 0) return fmt::format("program '{}', which has no nodes", program.name);
  return fmt::format("program '{}', {}", program.name, program.peak_at);
}

void AppendTotals(const MemoryPlan& plan, std::string& text) {
  const int64_t whole = plan.arena_bytes;
  for (const RoleRow& row : RoleRows()) {
    int64_t bytes = 0;
    for (Role role : row.roles) bytes += plan.bytes_of(role);
    if (bytes > 0) Line(text, "  ", row.name, bytes, whole);
  }
  Line(text, "  ", "max live", plan.max_live_bytes, whole);
  Line(text, "  ", "arena", plan.arena_bytes, whole);
  text += fmt::format("  {:<36} {:>10}\n", "fragmentation", Fragmentation(plan.fragmentation));
  if (plan.host_arena_bytes > 0) {
    text +=
        fmt::format("  {:<36} {:>10}\n", "pinned host memory", FormatBytes(plan.host_arena_bytes));
  }
  if (plan.host_input_bytes > 0) {
    text += fmt::format("  {:<36} {:>10}\n", "host memory for batches",
                        FormatBytes(plan.host_input_bytes));
  }
}

void AppendPrograms(const MemoryPlan& plan, std::string& text) {
  text += fmt::format("\nPrograms, above {} that persist\n", FormatBytes(plan.persistent_bytes));
  for (const ProgramPlan& program : plan.programs) {
    text += fmt::format("  {:<36} {:>10}  {}\n", program.name, FormatBytes(program.temporary_bytes),
                        Counted(program.live_bytes.size(), "node"));
  }
}

void AppendPeak(const MemoryPlan& plan, std::string& text) {
  const ProgramPlan& program = plan.programs[plan.peak_program];
  text += fmt::format("\nPeak in {}\n", PeakPlace(program));

  int64_t temporary = 0;
  std::map<Role, int64_t> by_role;
  std::map<std::string, int64_t> by_scope;
  for (const LiveTensor& tensor : plan.peak_live) {
    if (tensor.persistent) continue;
    temporary += tensor.bytes;
    by_role[tensor.role] += tensor.bytes;
    by_scope[StarNumbers(tensor.scope)] += tensor.bytes;
  }
  text += fmt::format(" Temporaries alive there by role ({})\n", FormatBytes(temporary));
  for (const auto& [role, bytes] : LargestFirst(by_role)) {
    Line(text, "  ", graph::Name(role), bytes, temporary);
  }
  text += " by scope\n";
  const auto scopes = LargestFirst(by_scope);
  int64_t rest = 0;
  for (size_t i = 0; i < scopes.size(); ++i) {
    const auto& [scope, bytes] = scopes[i];
    if (i < kTop) {
      Line(text, "  ", scope.empty() ? kNoScope : scope, bytes, temporary);
    } else {
      rest += bytes;
    }
  }
  if (rest > 0) {
    Line(text, "  ", Counted(scopes.size() - kTop, "other scope"), rest, temporary);
  }

  text += " Largest tensors alive there\n";
  for (size_t i = 0; i < plan.peak_live.size() && i < kTop; ++i) {
    const LiveTensor& tensor = plan.peak_live[i];
    text += fmt::format("  {:<36} {:>10}  {} {}{}\n", tensor.name, FormatBytes(tensor.bytes),
                        tensor.type.ToString(), graph::Name(tensor.role),
                        tensor.persistent ? ", persistent" : "");
  }
}

// The following functions make the report of a run.

constexpr std::array<std::string_view, kRoles> kRoleTitles = {
    "inputs",        "parameters",  "gradients", "master weights", "optimizer state", "other state",
    "pending state", "activations", "workspace", "metrics",        "snapshot copy"};
static_assert(!kRoleTitles.back().empty(), "every role has a title");

// The bytes of one role, or of all roles, on the device or on the host.
struct Use {
  int64_t now = 0;  // persistent tensors alive after the run
  int64_t peak = 0;
  int program = -1, node = -1;  // where the peak first occurs; -1: throughout
};

// The bytes of those persistent tensors that a program does not need throughout; its lifetimes
// include them.
int64_t PartlyKept(const MemoryPlan& plan, size_t program, std::optional<Role> role, Place place) {
  int64_t bytes = 0;
  const KeptNeeds& needs = plan.programs[program].kept;
  for (const PersistentTensor& tensor : plan.persistent) {
    if (tensor.place != place || (role && tensor.role != *role)) continue;
    const auto need = needs.find(tensor.name);
    if (need != needs.end() && !need->second.throughout()) bytes += tensor.bytes;
  }
  return bytes;
}

// `role`: nullopt means all roles.
Use UseOf(const MemoryFacts& facts, const std::vector<Lifetimes>& lifetimes,
          std::optional<Role> role, Place place) {
  Use use;
  for (const PersistentTensor& tensor : facts.plan.persistent) {
    if (tensor.place == place && (!role || tensor.role == *role)) use.now += tensor.bytes;
  }
  use.peak = use.now;
  for (size_t p = 0; p < lifetimes.size(); ++p) {
    const Program& program = *facts.programs[p];
    std::vector<int64_t> change(program.nodes().size() + 1, 0);
    for (const Buffer& buffer : lifetimes[p].buffers) {
      if (buffer.place != place) continue;
      const int64_t bytes = RoundUp(buffer.bytes, facts.plan.alignment);
      // The buffer's bytes belong to a tensor until the next tensor overwrites them.
      for (size_t i = 0; i < buffer.tensors.size(); ++i) {
        if (role && program.tensor(buffer.tensors[i]).role != *role) continue;
        const bool last = i + 1 == buffer.tensors.size();
        change[lifetimes[p].first_use[buffer.tensors[i]]] += bytes;
        change[last ? buffer.death + 1 : lifetimes[p].first_use[buffer.tensors[i + 1]]] -= bytes;
      }
    }
    int64_t live = use.now - PartlyKept(facts.plan, p, role, place);
    for (size_t n = 0; n + 1 < change.size(); ++n) {
      live += change[n];
      if (live <= use.peak) continue;
      use.peak = live;
      use.program = static_cast<int>(p);
      use.node = static_cast<int>(n);
    }
  }
  return use;
}

std::string Where(const MemoryFacts& facts, const Use& use) {
  if (use.node < 0) return "throughout";
  const Program& program = *facts.programs[use.program];
  return fmt::format("{}, {}", program.name(), DescribeNode(program, use.node));
}

void AppendRoles(const MemoryFacts& facts, const std::vector<Lifetimes>& lifetimes,
                 std::string& text) {
  text += fmt::format("  {:<28} {:>10} {:>10}  {}\n", "role", "now", "peak", "peak at");
  auto line = [&](std::string_view title, Place place, const Use& use) {
    if (use.peak == 0) return;
    const std::string name = fmt::format("{}{}", title, place == Place::kHost ? ", host" : "");
    text += fmt::format("  {:<28} {:>10} {:>10}  {}\n", name, FormatBytes(use.now),
                        FormatBytes(use.peak), Where(facts, use));
  };
  for (Place place : {Place::kDevice, Place::kHost}) {
    for (size_t role = 0; role < kRoles; ++role) {
      const Role r = static_cast<Role>(role);
      line(kRoleTitles[role], place, UseOf(facts, lifetimes, r, place));
    }
    line("in all", place, UseOf(facts, lifetimes, std::nullopt, place));
  }
}

// The bytes that an op kind or a scope holds at the peak, and the time that a step spends on it.
struct Share {
  int64_t bytes = 0;
  double seconds = 0;
};
using Shares = std::map<std::string, Share>;

// The part of the model that a persistent tensor, or the node that updates it, belongs to: the
// longest prefix of the name that is a scope of the model, or else the name's first word ("embed").
std::string ScopeOf(const std::string& name, const std::set<std::string>& scopes) {
  for (size_t end = name.size(); end != std::string::npos && end > 0;
       end = name.rfind('.', end - 1)) {
    if (scopes.count(name.substr(0, end)) > 0) return name.substr(0, end);
  }
  const size_t dot = name.find('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

void Collect(const MemoryFacts& facts, Shares& ops, Shares& scopes) {
  auto starred = [](const std::string& scope) {
    return scope.empty() ? std::string(kNoScope) : StarNumbers(scope);
  };
  std::set<std::string> node_scopes;
  for (const Program* program : facts.programs) {
    for (const graph::Node& node : program->nodes()) {
      if (node.phase != graph::Phase::kUpdate) node_scopes.insert(node.scope);
    }
  }
  for (const LiveTensor& tensor : facts.plan.peak_live) {
    const std::string& part = tensor.persistent ? tensor.name : tensor.scope;
    const std::string op = tensor.op.empty() ? "(inputs)" : tensor.op;
    ops[tensor.persistent ? kPersistent : op].bytes += tensor.bytes;
    scopes[starred(ScopeOf(part, node_scopes))].bytes += tensor.bytes;
  }
  for (size_t p = 0; p < facts.node_seconds.size(); ++p) {
    for (size_t n = 0; n < facts.node_seconds[p].size(); ++n) {
      const graph::Node& node = facts.programs[p]->nodes()[n];
      if (node.op->view) continue;
      ops[node.op->name].seconds += facts.node_seconds[p][n];
      scopes[starred(ScopeOf(node.scope, node_scopes))].seconds += facts.node_seconds[p][n];
    }
  }
}

void AppendShares(const MemoryFacts& facts, std::string_view title, const Shares& shares,
                  std::string& text) {
  const bool timed = !facts.node_seconds.empty();
  const bool by_time = facts.by_time && timed;
  std::vector<std::pair<std::string, Share>> rows(shares.begin(), shares.end());
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    if (by_time) return a.second.seconds > b.second.seconds;
    return a.second.bytes > b.second.bytes;
  });
  Share all;
  for (const auto& [name, share] : rows) {
    all.bytes += share.bytes;
    all.seconds += share.seconds;
  }
  text += fmt::format("\n  {:<40} {:>10} {:>8}{}\n",
                      fmt::format("{} by {}", title, by_time ? "time" : "bytes at the peak"),
                      "bytes", "share", timed ? "   ms a step    share" : "");
  auto line = [&](std::string_view name, const Share& share) {
    text += fmt::format("  {:<40} {:>10} {:>8}", name, FormatBytes(share.bytes),
                        Percent(share.bytes, all.bytes));
    if (timed) {
      text +=
          fmt::format(" {:>11.2f} {:>8}", share.seconds * 1e3, Percent(share.seconds, all.seconds));
    }
    text += "\n";
  };
  Share rest;
  size_t shown = 0, left = 0;
  for (const auto& [name, share] : rows) {
    // Persistent tensors belong to no op: their row doesn't count among the kTop rows.
    if (name == kPersistent || shown < kTop) {
      line(name, share);
      shown += name != kPersistent;
    } else {
      rest.bytes += share.bytes;
      rest.seconds += share.seconds;
      ++left;
    }
  }
  if (left > 0) line(Counted(left, "other"), rest);
}

void AppendAllocators(const MemoryFacts& facts, std::string& text) {
  text += fmt::format("\n  {:<28} {:>10} {:>10} {:>14} {:>9}\n", "allocator", "in use", "reserved",
                      "fragmentation", "segments");
  const auto lines = [&](graph::Place place, const char* on) {
    const auto line = [&](const char* name, const runtime::AllocatorStats& stats) {
      text += fmt::format("  {:<28} {:>10} {:>10} {:>14} {:>9}\n", fmt::format("{}{}", name, on),
                          FormatBytes(stats.peak_allocated), FormatBytes(stats.peak_reserved),
                          Fragmentation(stats.fragmentation()), stats.segments);
    };
    line(facts.used ? "planned, not used" : "planned", facts.plan.stats(place));
    if (!facts.caching) return;
    line(facts.used ? "caching" : "caching, replayed",
         place == graph::Place::kDevice ? facts.caching->device : facts.caching->host);
  };
  lines(graph::Place::kDevice, "");
  if (facts.plan.host_arena_bytes > 0) lines(graph::Place::kHost, ", host");
}

}  // namespace

const std::vector<RoleRow>& RoleRows() {
  static const std::vector<RoleRow> rows = {
      {"parameters", {Role::kParameter}},
      {"gradients", {Role::kGradient}},
      {"master weights", {Role::kMaster}},
      {"optimizer state", {Role::kOptimizerState}},
      {"other state", {Role::kState, Role::kPending}},
      {"activations", {Role::kActivation}},
      {"workspace", {Role::kWorkspace}},
      {"inputs, metrics", {Role::kInput, Role::kMetric}},
      {"snapshot copy", {Role::kSnapshot}},
  };
  return rows;
}

std::string Report(const MemoryPlan& plan) {
  std::string text = "Memory plan\n";
  AppendTotals(plan, text);
  AppendPrograms(plan, text);
  if (plan.peak_program >= 0) AppendPeak(plan, text);
  return text;
}

std::string Summary(const MemoryPlan& plan) {
  std::string text =
      fmt::format("arena {} (max live {}, fragmentation {})", FormatBytes(plan.arena_bytes),
                  FormatBytes(plan.max_live_bytes), Fragmentation(plan.fragmentation));
  if (plan.peak_program >= 0) {
    text += ", peak in " + PeakPlace(plan.programs[plan.peak_program]);
  }
  return text;
}

std::string RunSummary(const MemoryFacts& facts) {
  std::vector<Lifetimes> lifetimes;
  for (size_t p = 0; p < facts.programs.size(); ++p) {
    lifetimes.push_back(
        ComputeLifetimes(*facts.programs[p], /*in_place=*/true, facts.plan.programs[p].kept));
  }
  std::string text =
      fmt::format("Memory summary, allocator {}\n", facts.used ? "caching" : "planned");
  AppendRoles(facts, lifetimes, text);
  Shares ops, scopes;
  Collect(facts, ops, scopes);
  AppendShares(facts, "op kinds", ops, text);
  AppendShares(facts, "scopes", scopes, text);
  AppendAllocators(facts, text);
  text.pop_back();
  return text;
}

}  // namespace plimsoll::memory
