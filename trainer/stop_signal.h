// Signals that ask a training run to stop. The first signal is remembered until the step is done. A
// second signal ends the process at once, as without this class.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// While this object lives, SIGTERM, SIGINT and `also` only set a request. After its destruction
// these signals end the process again.
class StopSignals {
 public:
  explicit StopSignals(config::StopSignal also);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool Asked() const;
  std::string Name() const;  // the name of the received signal: "SIGTERM"

 private:
  std::vector<int> handled_;
};

}  // namespace plimsoll::trainer
