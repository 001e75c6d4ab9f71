// A long activity announces itself: one line on stderr once it has taken a second.
#pragma once

#include <memory>
#include <string>

#include "base/stage.h"

namespace plimsoll::trainer {

// Announces that the process does `what` ("looking for the fastest plan") for as long as the object
// lives. While an activity within another lives, it is the one that is announced. For one thread at
// a time. It is a stage of the process's start, of that name or of a shorter one.
class Activity {
 public:
  explicit Activity(std::string what) : Activity(what, what) {}
  Activity(std::string what, std::string stage);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  class Watcher;
  Stage stage_;
  std::unique_ptr<Watcher> watcher_;
};

}  // namespace plimsoll::trainer
