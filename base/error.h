// Errors that a user can cause, and the exit codes of the process (0 done, 2 the user's mistake,
// …).
#pragma once

#include <stdexcept>
#include <string>

namespace plimsoll {

enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,      // any failure not listed here
  kUserMistake = 2,   // nothing has been started
  kBudgetNotMet = 3,  // no allowed plan fits memory.budget, or the plan doesn't fit its GPU
  kStoppedBySignal = 4,
};

// A mistake in a file, key or argument. The message is one line for each mistake, with the key or
// file (and its line number, if any), the reason, and what to do about it. main() prints the
// message and exits with `code`.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message, ExitCode code = ExitCode::kUserMistake)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// A broken invariant of Plimsoll itself, never the user's fault. The message names the op, pass or
// tensor.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace plimsoll
