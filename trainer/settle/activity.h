// A long activity announces itself: one line on stderr once it has taken a second.
#pragma once

#include <memory>
#include <string>

namespace plimsoll::trainer {

// Announces that the process does `what` ("looking for the fastest plan") for as long as the object
// lives. While an activity within another lives, it is the one that is announced. For one thread at a
// time.
class Activity {
 public:
  explicit Activity(std::string what);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  class Watcher;
  std::unique_ptr<Watcher> watcher_;
};

}  // namespace plimsoll::trainer
