#include "trainer/plan/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/columns.h"
#include "trainer/resolve/knobs.h"

namespace plimsoll::trainer {
namespace {

using memory::Candidate;
using nlohmann::ordered_json;

constexpr int kFrontRows = 9;

double RecomputeShare(const Candidate& candidate) {
  return candidate.exact->recompute_seconds / candidate.exact->seconds;
}

std::string Label(const StepSolver& solver, const Candidate& candidate) {
  const std::string text = solver.Describe(candidate);
  if (candidate.policy.empty() || candidate.policy == "none") return text;
  return candidate.policy + " = " + text;
}

std::string HeaderText(bool host) {
  return fmt::format("  {:>10}  {}{:>12}  {:>9}  plan\n", "arena", host ? "      host  " : "",
                     "step", "recompute");
}

std::string RowText(const StepSolver& solver, const Candidate& candidate, bool host,
                    const char* mark) {
  const memory::ExactPlan& exact = *candidate.exact;
  return fmt::format(
      "{} {:>10}  {}{:>9.1f} ms  {:>7.1f} %  {}", mark, FormatBytes(exact.arena_bytes),
      host ? fmt::format("{:>10}  ", FormatBytes(exact.host_arena_bytes)) : "", exact.seconds * 1e3,
      100 * RecomputeShare(candidate), Label(solver, candidate));
}

bool AnyHost(const std::vector<const Candidate*>& candidates) {
  return std::any_of(candidates.begin(), candidates.end(),
                     [](const Candidate* c) { return c->exact->host_arena_bytes > 0; });
}

// The tensors that are not kept, by objective, and what happens to them (recomputed, offloaded).
// Together with the solver's choices they determine the plan.
ordered_json FatesJson(const StepSolver& solver, const Candidate& candidate) {
  ordered_json fates = ordered_json::object();
  for (const auto& [objective, tensors] : solver.OptionsOf(candidate).retention) {
    for (const auto& [tensor, fate] : tensors) {
      fates[objective][std::string(graph::Name(fate))].push_back(tensor);
    }
  }
  return fates;
}

ordered_json RowJson(const StepSolver& solver, const Candidate& candidate) {
  const memory::ExactPlan& exact = *candidate.exact;
  const config::RunConfig made = solver.ConfigOf(candidate);
  return {{"arena_bytes", exact.arena_bytes},
          {"max_live_bytes", exact.max_live_bytes},
          {"host_arena_bytes", exact.host_arena_bytes},
          {"predicted_step_ms", exact.seconds * 1e3},
          {"recompute_share", RecomputeShare(candidate)},
          {"policy", candidate.policy.empty() ? "auto" : candidate.policy},
          {"micro_batch", made.train.micro_batch},
          {"accumulate", made.train.accumulate},
          {"choices", ChoicesJson(solver.config(), made)},
          {"fates", FatesJson(solver, candidate)},
          {"plan", solver.Describe(candidate)}};
}

}  // namespace

CandidateTable::CandidateTable(StepSolver& solver, const memory::Budget& budget,
                               const Candidate* chosen)
    : solver_(solver), budget_(budget), chosen_(chosen) {
  const auto add = [&](const Candidate* candidate) {
    if (candidate != nullptr && std::find(rows_.begin(), rows_.end(), candidate) == rows_.end()) {
      rows_.push_back(candidate);
    }
  };
  const int64_t budgets[] = {budget.device};
  for (const Candidate* candidate : solver.solver().Front(kFrontRows, budgets)) add(candidate);
  for (const char* policy : {"none", "selective", "block"}) {
    add(solver.solver().Policy(chosen->variant, policy));
  }
  add(chosen);
  std::stable_sort(rows_.begin(), rows_.end(), [](const Candidate* a, const Candidate* b) {
    return a->exact->taken_bytes > b->exact->taken_bytes;
  });
}

std::string CandidateTable::Text() const {
  const bool host = AnyHost(rows_);
  std::string text = fmt::format("Plans ({}; * chosen, - beyond the budget of {})\n",
                                 Counted(solver_.solver().searched(), "candidate"),
                                 FormatBytes(budget_.process())) +
                     HeaderText(host);
  const Candidate* next = nullptr;  // the smallest of the faster plans that don't fit
  for (const Candidate* row : rows_) {
    const bool fits =
        row->exact->taken_bytes <= budget_.device && row->exact->host_bytes <= budget_.host;
    const char* mark = row == chosen_ ? "*" : fits ? " " : "-";
    const std::string line = RowText(solver_, *row, host, mark);
    text += Shortened(line, kLineColumns) + "\n";
    if (!fits && row->exact->seconds < chosen_->exact->seconds &&
        (next == nullptr || row->exact->taken_bytes < next->exact->taken_bytes)) {
      next = row;
    }
  }
  std::string end =
      fmt::format("chosen: the fastest of the plans that fit; {} of {} used",
                  FormatBytes(budget_.profile.ProcessBytes(chosen_->exact->taken_bytes)),
                  FormatBytes(budget_.process()));
  if (next == nullptr) {
    end += ", no plan is faster";
  } else {
    end += fmt::format("; {} more would allow {:.1f} ms",
                       FormatBytes(next->exact->needed_bytes - budget_.device),
                       next->exact->seconds * 1e3);
  }
  text += Wrapped(end, kLineColumns, "  ") + "\n";
  return text;
}

ordered_json CandidateTable::Json() const {
  ordered_json json = ordered_json::array();
  for (const Candidate* row : rows_) {
    json.push_back(RowJson(solver_, *row));
    json.back()["chosen"] = row == chosen_;
    json.back()["fits"] =
        row->exact->taken_bytes <= budget_.device && row->exact->host_bytes <= budget_.host;
  }
  return json;
}

SweepTable::SweepTable(StepSolver& solver, int count, const memory::Budget& lines)
    : solver_(solver) {
  const int64_t host_budget = lines.host;
  const int64_t least = solver.solver().Smallest({.host = host_budget}).exact->needed_bytes;
  const Candidate* fastest = solver.solver().Fastest({.host = host_budget});
  const int64_t most = std::max(least, fastest->exact->needed_bytes);
  for (int i = 0; i < count; ++i) {
    const int64_t budget =
        count == 1
            ? most
            : most - static_cast<int64_t>(static_cast<double>(most - least) * i / (count - 1));
    // Process memory is counted in whole pages.
    const int64_t process = lines.profile.ProcessBytes(budget);
    rows_.push_back(
        {process, solver.solver().Fastest({lines.profile.ArenaWithin(process), host_budget})});
  }
}

std::string SweepTable::Text() const {
  std::vector<const Candidate*> plans;
  for (const Row& row : rows_) plans.push_back(row.plan);
  const bool host = AnyHost(plans);
  std::string text = fmt::format("  {:>10}", "budget") + HeaderText(host);
  for (const Row& row : rows_) {
    const std::string line =
        fmt::format("  {:>10}", FormatBytes(row.budget)) + RowText(solver_, *row.plan, host, " ");
    text += Shortened(line, kLineColumns) + "\n";
  }
  return text;
}

ordered_json SweepTable::Json() const {
  ordered_json json = ordered_json::array();
  for (const Row& row : rows_) {
    ordered_json object = {{"budget_bytes", row.budget}};
    object.update(RowJson(solver_, *row.plan));
    json.push_back(std::move(object));
  }
  return json;
}

}  // namespace plimsoll::trainer
