#include "data/texts/unreadable_examples.h"

#include <fmt/format.h>

#include "base/amounts.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kListed = 10;

}  // namespace

bool UnreadableExamples::Try(FunctionRef<void()> read) {
  try {
    read();
    return true;
  } catch (const UnreadableExample& error) {
    if (count_++ < kListed) first_.emplace_back(error.what());
    return false;
  }
}

std::string UnreadableExamples::List() const {
  std::string lines;
  for (const std::string& one : first_) lines += fmt::format("\n  {}", one);
  const int64_t rest = count_ - std::ssize(first_);
  if (rest > 0) lines += fmt::format("\n  and {} more", rest);
  return lines;
}

void UnreadableExamples::Require(int64_t examples) const {
  if (count_ == 0) return;
  const bool all = count_ == examples;  // the files are of another kind
  if (then_.skip && !all) return;
  if (all || count_ == 1) throw UserError(first_.front());
  throw UserError(fmt::format("{} of {} cannot be read; correct them, or leave them out with {}:{}",
                              count_, Counted(examples, "example"), then_.way, List()));
}

std::string UnreadableExamples::Summary(int64_t examples, const std::string& of) const {
  if (count_ == 0) return "";
  return fmt::format("{} of {}{} cannot be read and {} left out ({})", count_,
                     Counted(examples, "example"), of.empty() ? "" : " of " + of,
                     count_ == 1 ? "is" : "are", then_.way);
}

}  // namespace plimsoll::data
