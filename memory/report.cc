#include "memory/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace plimsoll::memory {
namespace {

using graph::Role;

constexpr size_t kTopScopes = 10;
constexpr size_t kTopTensors = 10;

// The order and the names of the rows of the table.
struct Row {
  std::string_view name;
  std::vector<Role> roles;
};

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
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

std::string Percent(int64_t part, int64_t whole) {
  return whole == 0 ? ""
                    : fmt::format("{:5.1f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void Line(std::string& text, std::string_view indent, std::string_view name, int64_t bytes,
          int64_t whole) {
  text +=
      fmt::format("{}{:<36} {:>10}  {}\n", indent, name, FormatBytes(bytes), Percent(bytes, whole));
}

template <typename Key>
std::vector<std::pair<Key, int64_t>> LargestFirst(const std::map<Key, int64_t>& sums) {
  std::vector<std::pair<Key, int64_t>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

std::string Fragmentation(double fragmentation) {
  return fmt::format("{:.2f} %", std::max(0.0, 100 * fragmentation));
}

// "program 'step', node 812 of 1630: gelu_backward in block.11.mlp, backward".
std::string PeakPlace(const ProgramPlan& program) {
  if (program.peak_node < 0) return fmt::format("program '{}', which has no nodes", program.name);
  return fmt::format("program '{}', node {} of {}: {}{}{}, {}", program.name, program.peak_node,
                     program.live_bytes.size(), program.peak_op,
                     program.peak_scope.empty() ? "" : " in ", program.peak_scope,
                     graph::Name(program.peak_phase));
}

void AppendTotals(const MemoryPlan& plan, std::string& text) {
  const int64_t whole = plan.arena_bytes;
  for (const Row& row : Rows()) {
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
}

void AppendPrograms(const MemoryPlan& plan, std::string& text) {
  text += fmt::format("\nPrograms, above {} that persist\n", FormatBytes(plan.persistent_bytes));
  for (const ProgramPlan& program : plan.programs) {
    text += fmt::format("  {:<36} {:>10}  {} nodes\n", program.name,
                        FormatBytes(program.temporary_bytes), program.live_bytes.size());
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
    if (i < kTopScopes) {
      Line(text, "  ", scope.empty() ? "(no scope)" : scope, bytes, temporary);
    } else {
      rest += bytes;
    }
  }
  if (rest > 0) {
    Line(text, "  ", fmt::format("{} other scopes", scopes.size() - kTopScopes), rest, temporary);
  }

  text += " Largest tensors alive there\n";
  for (size_t i = 0; i < plan.peak_live.size() && i < kTopTensors; ++i) {
    const LiveTensor& tensor = plan.peak_live[i];
    text += fmt::format("  {:<36} {:>10}  {} {}{}\n", tensor.name, FormatBytes(tensor.bytes),
                        tensor.type.ToString(), graph::Name(tensor.role),
                        tensor.persistent ? ", persistent" : "");
  }
}

}  // namespace

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

}  // namespace plimsoll::memory
