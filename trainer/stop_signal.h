// Signals that ask a training run to stop: the first is remembered until the step is done; a second
// one ends the process at once, as it would without this class.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// During its lifetime SIGTERM, SIGINT and `also` only set a request; afterwards they end the
// process again.
class StopSignals {
 public:
  explicit StopSignals(config::StopSignal also);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool Asked() const;
  std::string Name() const;  // of the signal that came: "SIGTERM"; empty: none

 private:
  std::vector<int> handled_;
};

}  // namespace plimsoll::trainer
