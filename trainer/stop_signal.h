// Signals that ask a training run to stop. The first one is remembered until the step is done. A
// second one ends the process at once, as without this class.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// While this object lives, SIGTERM, SIGINT and `also` only set a request. Later they end the
// process again.
class StopSignals {
 public:
  explicit StopSignals(config::StopSignal also);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool Asked() const;
  std::string Name() const;  // the received signal: "SIGTERM"; empty without one

 private:
  std::vector<int> handled_;
};

}  // namespace plimsoll::trainer
