// Announces activities that take long: one line on stderr once an activity has run for a second.
#pragma once

#include <memory>
#include <string>

#include "base/stage.h"

namespace plimsoll::trainer {

// Announces that the process does `what` ("looking for the fastest plan") while this object lives.
// Of nested activities only the innermost is announced. Only one thread may start activities at a
// time. The activity is also a stage of the process's start, under the name `what` or the shorter
// name `stage`.
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
