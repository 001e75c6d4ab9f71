// What takes longer than a moment says so: one line on stderr, once two seconds have passed.
#pragma once

#include <memory>
#include <string>

namespace plimsoll::trainer {

// From its construction to its end the process does `what`: "looking for the fastest plan". An
// activity within another is a part of it and says nothing. For one thread at a time.
class Activity {
 public:
  explicit Activity(std::string what);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  class Watcher;
  std::unique_ptr<Watcher> watcher_;  // nullptr: within another
};

}  // namespace plimsoll::trainer
