#include "trainer/stop_signal.h"

#include <signal.h>
#include <string.h>

#include <atomic>

namespace plimsoll::trainer {
namespace {

// A signal handler can only use globals.
std::atomic<int> asked = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void Remember(int number) {
  if (asked.exchange(number) == 0) return;
  signal(number, SIG_DFL);
  raise(number);
}

int NumberOf(config::StopSignal also) {
  switch (also) {
    case config::StopSignal::kNone:
      break;
    case config::StopSignal::kHup:
      return SIGHUP;
    case config::StopSignal::kUsr1:
      return SIGUSR1;
    case config::StopSignal::kUsr2:
      return SIGUSR2;
  }
  return 0;
}

}  // namespace

StopSignals::StopSignals(config::StopSignal also) {
  asked = 0;
  handled_ = {SIGTERM, SIGINT};
  if (const int number = NumberOf(also); number != 0) handled_.push_back(number);
  struct sigaction action = {};
  action.sa_handler = Remember;
  action.sa_flags = SA_RESTART;
  for (const int number : handled_) sigaction(number, &action, nullptr);
}

StopSignals::~StopSignals() {
  for (const int number : handled_) signal(number, SIG_DFL);
}

bool StopSignals::Asked() const { return asked != 0; }

std::string StopSignals::Name() const {
  const int number = asked;
  const char* const name = number == 0 ? nullptr : sigabbrev_np(number);
  return name == nullptr ? "" : std::string("SIG") + name;
}

}  // namespace plimsoll::trainer
