// Notices that nothing goes on any more: a collective whose partner never comes waits for ever.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace plimsoll::runtime {

class Watchdog {
 public:
  // Calls `expired`, on a thread of its own and once, when Progress() has not been called for so
  // many seconds. It should end the process: whoever waits cannot be woken.
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
  std::thread thread_;  // last: it uses all of these
};

}  // namespace plimsoll::runtime
