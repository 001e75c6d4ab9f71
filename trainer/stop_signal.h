// Signals that ask a training run to stop: the first is remembered until the step is done, a second
// one ends the process at once, as it would without this.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// From here on SIGTERM, SIGINT and `also` only ask. They end the process again once this is gone.
class StopSignals {
 public:
  explicit StopSignals(config::StopSignal also);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool Asked() const;
  std::string Name() const;  // of the signal that came: "SIGTERM"

 private:
  std::vector<int> handled_;
};

}  // namespace plimsoll::trainer
