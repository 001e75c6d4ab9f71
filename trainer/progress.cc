#include "trainer/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>

#include "base/bytes.h"
#include "base/message.h"

namespace plimsoll::trainer {

using Clock = std::chrono::steady_clock;

namespace {

size_t TerminalColumns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(int64_t steps, int64_t first, int64_t log_every, bool live)
    : steps_(steps),
      first_(first),
      log_every_(log_every),
      terminal_(live && isatty(STDOUT_FILENO) == 1),
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
  } else if (terminal_ && Clock::now() - last_live_ > std::chrono::milliseconds(200)) {
    ClearLive();
    // A line that wraps could not be taken back.
    PrintProgress(Format(report).substr(0, TerminalColumns() - 1));
    live_ = true;
    last_live_ = Clock::now();
  }
}

void Progress::Line(const std::string& text) {
  ClearLive();
  PrintProgress(text + "\n");
}

void Progress::ClearLive() {
  if (live_) PrintProgress("\r\033[K");
  live_ = false;
}

std::string Progress::Format(const StepReport& r) const {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double left =
      elapsed / static_cast<double>(r.step - first_ + 1) * static_cast<double>(steps_ - r.step - 1);
  const std::string skipped = r.skipped > 0 ? fmt::format("  {} skipped", r.skipped) : "";
  const std::string scale =
      r.loss_scale == 1 ? skipped
                        : fmt::format("  loss scale {:g}, {} skipped", r.loss_scale, r.skipped);
  const bool caching = r.reserved_bytes > 0;
  const std::string ranks =
      r.ranks ? fmt::format("  ranks {:.4g} to {:.4g} ms a step (slowest: {}), {} to {}",
                            r.ranks->fastest_seconds * 1e3, r.ranks->slowest_seconds * 1e3,
                            r.ranks->slowest, FormatBytes(r.ranks->least_bytes),
                            FormatBytes(r.ranks->most_bytes))
              : "";
  return fmt::format(
      "step {:>{}}/{}  loss {:.4f}  lr {:.2e}  grad norm {:.3f}{}  {} tokens/s{}  memory {} {}, "
      "{} resident{}  {} left",
      // An overflow can make it a negative NaN.
      r.step, std::to_string(steps_).size(), steps_, r.loss, r.lr, std::fabs(r.grad_norm), scale,
      FormatCount(r.tokens_per_second), r.mfu ? fmt::format("  MFU {:.1f} %", 100 * *r.mfu) : "",
      FormatBytes(caching ? r.reserved_bytes : r.arena_bytes), caching ? "reserved" : "planned",
      FormatBytes(r.resident_bytes), ranks, FormatDuration(left));
}

std::string FormatDuration(double seconds) {
  const int64_t s = static_cast<int64_t>(std::lround(seconds));
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string FormatCount(double count) {
  if (count >= 1e12) return fmt::format("{:.3g}T", count / 1e12);
  if (count >= 1e9) return fmt::format("{:.3g}G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.3g}M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.3g}k", count / 1e3);
  return fmt::format("{:.3g}", count);
}

}  // namespace plimsoll::trainer
