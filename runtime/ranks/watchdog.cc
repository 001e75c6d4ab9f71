#include "runtime/ranks/watchdog.h"

#include <utility>

namespace plimsoll::runtime {

Watchdog::Watchdog(double seconds, std::function<void()> expired)
    : patience_(
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
      expired_(std::move(expired)),
      last_(Clock::now()),
      thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::Progress() {
  const std::lock_guard lock(mutex_);
  last_ = Clock::now();
}

void Watchdog::Watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    const Clock::time_point due = last_ + patience_;
    if (Clock::now() >= due) {
      lock.unlock();
      expired_();
      return;
    }
    changed_.wait_until(lock, due);
  }
}

}  // namespace plimsoll::runtime
