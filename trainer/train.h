// `plimsoll train`: the training loop.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "runtime/ranks/world.h"
#include "trainer/config/load.h"
#include "trainer/record/profile.h"

namespace plimsoll::trainer {

struct TrainOptions {
  // The steps to time node by node (trainer/record/profile.h).
  std::optional<ProfiledSteps> profile;
  // The snapshot from which to continue: "auto", or a path (trainer/save_and_resume/resume.h).
  // Empty means to start from the beginning.
  std::string resume;
  // The command that resumes the run from its newest snapshot (trainer/save_and_resume/way_on.h),
  // for the run's last message and run.json. Empty means unknown.
  std::string resume_command;
};

// Trains as configured and fills the run directory. A UserError before the first step leaves no
// files. Returns kDone, or kStoppedBySignal if a signal ended the run and a snapshot was saved.
ExitCode Train(const config::Loaded& loaded, runtime::World& world,
               const TrainOptions& options = {});

}  // namespace plimsoll::trainer
