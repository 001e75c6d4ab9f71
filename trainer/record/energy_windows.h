// Energy per step and per token, measured over windows of consecutive steps. A window lasts at
// least two seconds, because the counters are updated only every few tens of milliseconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "runtime/energy.h"

namespace plimsoll::trainer {

struct Energy {
  double joules_per_step = 0;
  double joules_per_token = 0;
  double watts = 0;

  Energy& operator+=(const Energy& other) {
    joules_per_step += other.joules_per_step;
    joules_per_token += other.joules_per_token;
    watts += other.watts;
    return *this;
  }
};

class EnergyWindows {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kShortest{2};

  // `counter` must outlive this object; nullptr means that nothing is measured.
  explicit EnergyWindows(runtime::EnergyCounter* counter) : counter_(counter) {}

  // A step begins: opens a window, unless one is open.
  void Begin(Clock::time_point now);
  // The step, which took `seconds`, is done, and the next step begins at once. The host may notice
  // the end late. So power is averaged until `now`, and energy is that power times the steps'
  // seconds. Does nothing if no window is open.
  void StepDone(Clock::time_point now, double seconds, int64_t tokens);
  // Something other than a step follows: discards the open window.
  void Interrupt() { open_ = false; }

  // The energy of the windows that ended since Forget(); nullopt when none ended.
  std::optional<Energy> ended() const;
  void Forget() { ended_ = {}; }

 private:
  struct Sum {
    double joules = 0, seconds = 0;
    int64_t steps = 0, tokens = 0;
  };

  runtime::EnergyCounter* counter_;
  bool open_ = false;
  Clock::time_point start_;
  double joules_ = 0;  // the counter's joules when the window opened
  Sum window_, ended_;
};

}  // namespace plimsoll::trainer
