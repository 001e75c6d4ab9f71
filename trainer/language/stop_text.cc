// Ends a text, which arrives in pieces, before the first of some stop strings.
#include <algorithm>
#include <cstddef>

#include "trainer/language/generate.h"

namespace plimsoll::trainer {

std::string StopText::Push(std::string_view piece) {
  if (stopped_) return "";
  pending_ += piece;
  size_t first = std::string::npos;
  size_t held = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, pending_.find(stop));
    for (size_t length = std::min(stop.size() - 1, pending_.size()); length > held; --length) {
      if (pending_.ends_with(std::string_view(stop).substr(0, length))) held = length;
    }
  }
  stopped_ = first != std::string::npos;
  const size_t kept = stopped_ ? first : pending_.size() - held;
  std::string text = pending_.substr(0, kept);
  if (stopped_) {
    pending_.clear();
  } else {
    pending_.erase(0, kept);
  }
  return text;
}

std::string StopText::Finish() {
  std::string text;
  text.swap(pending_);
  return text;
}

}  // namespace plimsoll::trainer
