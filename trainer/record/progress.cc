#include "trainer/record/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/message.h"
#include "graph/objective.h"
#include "trainer/record/data_time.h"

namespace plimsoll::trainer {

using Clock = std::chrono::steady_clock;

Progress::Progress(int64_t steps, int64_t first, int64_t log_every, bool live,
                   double steps_per_epoch)
    : steps_(steps),
      first_(first),
      log_every_(log_every),
      terminal_(live ? Terminal::Of(STDOUT_FILENO) : Terminal()),
      steps_per_epoch_(steps_per_epoch),
      start_(Clock::now()),
      last_live_(start_) {}

Progress::~Progress() { ClearLive(); }

void Progress::Restart(int64_t first) {
  first_ = first;
  start_ = Clock::now();
}

bool Progress::Logs(int64_t step) const {
  return log_every_ > 0 && (step % log_every_ == 0 || step + 1 == steps_);
}

void Progress::Step(const StepReport& report) {
  if (Logs(report.step)) {
    Line(Format(report));
  } else if (terminal_.erases && Clock::now() - last_live_ > std::chrono::milliseconds(200)) {
    ClearLive();
    PrintProgress(Format(report));
    live_ = true;
    last_live_ = Clock::now();
  }
}

void Progress::Line(const std::string& text) {
  ClearLive();
  PrintProgress(text + "\n");
}

void Progress::Warn(const std::string& text) {
  ClearLive();
  PrintWarning(text);
}

void Progress::ClearLive() {
  if (live_) PrintProgress("\r\033[K");
  live_ = false;
}

std::vector<Progress::Part> Progress::PartsOf(const StepReport& r) const {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double left =
      elapsed / static_cast<double>(r.step - first_ + 1) * static_cast<double>(steps_ - r.step - 1);
  std::vector<Part> parts;
  const auto add = [&](int rank, std::string text) { parts.push_back({std::move(text), rank}); };
  add(0, fmt::format("step {:>{}}/{}", r.step, std::to_string(steps_).size(), steps_));
  if (steps_per_epoch_ > 0) {
    add(1, fmt::format("  epoch {:.2f}/{:.4g}", static_cast<double>(r.step + 1) / steps_per_epoch_,
                       static_cast<double>(steps_) / steps_per_epoch_));
  }
  for (const ObjectiveReport& o : r.objectives) {
    const std::string of = graph::OfObjective(o.name, "");  // "critic."
    add(0, fmt::format("  {}loss {:.4f}", of, o.loss));
    add(5, fmt::format("  {}lr {:.2e}", of, o.lr));
    // After an overflow the norm can be a negative NaN.
    add(4, fmt::format("  {}grad norm {:.3f}", of, std::fabs(o.grad_norm)));
    if (o.loss_scale != 1) {
      add(3, fmt::format("  {}loss scale {:g}, {} skipped", of, o.loss_scale, o.skipped));
    } else if (o.skipped > 0) {
      add(3, fmt::format("  {} {}skipped", o.skipped, of));
    }
  }
  for (const auto& [name, value] : r.metrics) add(3, fmt::format("  {} {:.4g}", name, value));
  add(1, fmt::format("  {} {}s/s", FormatCount(r.tokens_per_second), r.unit));
  if (const std::string data = DataTimeText(r.data_seconds, r.step_seconds); !data.empty()) {
    add(3, "  " + data);
  }
  if (r.mfu) add(6, fmt::format("  MFU {:.1f} %", 100 * *r.mfu));
  add(7, fmt::format("  memory {} {}", FormatBytes(r.allocator.reserved),
                     r.planned ? "planned" : "reserved"));
  add(9, fmt::format(", {} resident", FormatBytes(r.resident_bytes)));
  if (r.ranks) {
    add(8, fmt::format("  ranks {:.4g} to {:.4g} ms a step (slowest: {}), {} to {}",
                       r.ranks->fastest_seconds * 1e3, r.ranks->slowest_seconds * 1e3,
                       r.ranks->slowest, FormatBytes(r.ranks->least_bytes),
                       FormatBytes(r.ranks->most_bytes)));
  }
  add(2, fmt::format("  {} left", FormatDuration(left)));
  return parts;
}

std::string Progress::Format(const StepReport& report) const {
  std::vector<Part> parts = PartsOf(report);
  const auto columns = [&] {
    size_t sum = 0;
    for (const Part& part : parts) sum += part.text.size();
    return sum;
  };
  // Drops parts until the line fits, because a wrapped line could not be erased. The last column
  // stays free for the cursor.
  while (terminal_.exists && columns() >= terminal_.columns) {
    const auto least = std::ranges::max_element(parts, {}, &Part::rank);
    if (least->rank == 0) break;
    parts.erase(least);
  }
  std::string head, rest;
  for (const Part& part : parts) (part.rank == 0 ? head : rest) += part.text;
  return terminal_.Styled(head, Terminal::Style::kBold) + rest;
}

}  // namespace plimsoll::trainer
