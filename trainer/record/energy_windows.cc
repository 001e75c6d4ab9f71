#include "trainer/record/energy_windows.h"

namespace plimsoll::trainer {

void EnergyWindows::Begin(Clock::time_point now) {
  if (counter_ == nullptr || open_) return;
  const std::optional<double> joules = counter_->Joules();
  if (!joules) return;
  open_ = true;
  start_ = now;
  joules_ = *joules;
  window_ = {};
}

void EnergyWindows::StepDone(Clock::time_point now, double seconds, int64_t tokens) {
  if (!open_) return;
  ++window_.steps;
  window_.seconds += seconds;
  window_.tokens += tokens;
  if (now - start_ < kShortest) return;
  open_ = false;
  const std::optional<double> joules = counter_->Joules();
  if (!joules) return;
  const double watts = (*joules - joules_) / std::chrono::duration<double>(now - start_).count();
  ended_.joules += watts * window_.seconds;
  ended_.seconds += window_.seconds;
  ended_.steps += window_.steps;
  ended_.tokens += window_.tokens;
  // The next window follows without a gap.
  open_ = true;
  start_ = now;
  joules_ = *joules;
  window_ = {};
}

std::optional<Energy> EnergyWindows::ended() const {
  if (ended_.steps == 0) return std::nullopt;
  return Energy{.joules_per_step = ended_.joules / static_cast<double>(ended_.steps),
                .joules_per_token = ended_.joules / static_cast<double>(ended_.tokens),
                .watts = ended_.joules / ended_.seconds};
}

}  // namespace plimsoll::trainer
