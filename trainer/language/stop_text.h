// Ends a text that appears piece by piece where one of some strings begins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::trainer {

class StopText {
 public:
  // `stops` must outlive this; none of them is empty.
  explicit StopText(const std::vector<std::string>& stops) : stops_(stops) {}

  // Adds to the text, and returns what certainly belongs to it: everything before the first stop
  // string, except for an end that a stop string may begin with.
  std::string Push(std::string_view piece);
  // A stop string has appeared. Push() returns nothing any more.
  bool stopped() const { return stopped_; }
  // The end that was held back, once the text is known to go no further.
  std::string Finish();

 private:
  const std::vector<std::string>& stops_;
  std::string pending_;  // not returned yet
  bool stopped_ = false;
};

}  // namespace plimsoll::trainer
