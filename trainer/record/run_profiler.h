// `plimsoll train --profile[=FIRST:COUNT]`: times the nodes of some steps of a run, prints where
// the time went and leaves trace.json in the run directory (docs/profiling.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/device.h"
#include "trainer/record/profile.h"
#include "trainer/record/run_directory.h"

namespace plimsoll::trainer {

struct ProfiledSteps {
  int64_t first = 3;  // counted from 0; the steps before are slower
  int64_t count = 3;
};

// "10:5", "10" (three steps from there on) or "" (the defaults). UserError on anything else, and
// when a run of `steps` steps does not have these steps.
ProfiledSteps ParseProfiledSteps(std::string_view text, int64_t steps);

class RunProfiler {
 public:
  // Measures the device's ceilings, so it must come before the arena takes its memory.
  RunProfiler(runtime::Device& device, const ProfiledSteps& steps)
      : steps_(steps),
        device_name_(device.name()),
        ceilings_(runtime::MeasureCeilings(device.kind())) {}

  // The session must have been made with ExecutorOptions::profile, and outlive the profiler's use.
  void Watch(Session& session) { collector_.emplace(session); }

  bool Covers(int64_t step) const {
    return step >= steps_.first && step < steps_.first + steps_.count;
  }
  // To be called before and after Session::Run of the covered steps.
  void Before(int64_t micro_step) { collector_->Before(micro_step); }
  void After(int64_t step, int64_t micro_step) { collector_->After(step, micro_step); }

  // To be called after the last covered step: writes trace.json and profile.json, and returns the
  // text to print.
  bool LastIs(int64_t step) const { return step == steps_.first + steps_.count - 1; }
  std::string Finish(const CompiledStep& compiled, const RunDirectory& directory) const;

 private:
  ProfiledSteps steps_;
  std::string device_name_;
  runtime::Ceilings ceilings_;
  std::optional<ProfileCollector> collector_;
};

}  // namespace plimsoll::trainer
