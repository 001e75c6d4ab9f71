#include "runtime/ranks/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace plimsoll::runtime {
namespace {

TEST(Watchdog, SpeaksUpOnceWhenNothingGoesOn) {
  std::promise<void> expired;
  std::atomic<int> calls = 0;
  {
    const Watchdog watchdog(0.01, [&] {
      if (++calls == 1) expired.set_value();
    });
    expired.get_future().wait();
  }  // waits for its thread
  EXPECT_EQ(calls, 1);
}

TEST(Watchdog, IsQuietWhileThingsGoOnAndAtTheEnd) {
  std::atomic<int> calls = 0;
  {
    Watchdog watchdog(600, [&] { ++calls; });
    for (int i = 0; i < 5; ++i) watchdog.Progress();
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace plimsoll::runtime
