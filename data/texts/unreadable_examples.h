// Collects the examples that cannot be read, and why: the first ten and the number of all.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"

namespace plimsoll::data {

// What examples that cannot be read do: they end the run, or are left out.
struct OnUnreadable {
  bool skip = false;
  std::string way = "data.unreadable: skip";  // what a user gives to leave them out, for messages
};

// Something is wrong with one example; others may be fine. The message begins with its place.
class UnreadableExample : public UserError {
 public:
  using UserError::UserError;
};

class UnreadableExamples {
 public:
  UnreadableExamples() = default;
  explicit UnreadableExamples(OnUnreadable then) : then_(std::move(then)) {}

  // Calls read(); returns false if it throws an UnreadableExample, which is collected.
  bool Try(FunctionRef<void()> read);

  int64_t count() const { return count_; }

  // Throws a UserError that lists the examples, if there are any and they must not be skipped, or
  // if all of `examples` cannot be read.
  void Require(int64_t examples) const;
  // "40 of 5000 examples of data.train cannot be read and are left out (data.unreadable: skip)";
  // empty if all can be read. `of`: the name of the data, or empty.
  std::string Summary(int64_t examples, const std::string& of = "") const;
  // The first ten, each on a line of its own with two spaces before it, and how many follow.
  std::string List() const;

 private:
  OnUnreadable then_;
  int64_t count_ = 0;
  std::vector<std::string> first_;  // why the first ones cannot be read, with their places
};

}  // namespace plimsoll::data
