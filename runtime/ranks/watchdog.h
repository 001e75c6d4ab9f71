// The watchdog of a job of several ranks detects that the job no longer progresses. A collective
// whose partner never comes waits forever.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace plimsoll::runtime {

class Watchdog {
 public:
  // Calls `expired` once, on the watchdog's own thread, when Progress() has not been called for
  // `seconds`. `expired` should end the process: a waiting collective cannot be woken.
  Watchdog(double seconds, std::function<void()> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void Progress();

 private:
  using Clock = std::chrono::steady_clock;
  void Watch();

  const Clock::duration patience_;
  const std::function<void()> expired_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point last_;
  bool ended_ = false;
  std::thread thread_;  // the last member, as the thread uses all others
};

}  // namespace plimsoll::runtime
