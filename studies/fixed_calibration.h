// The calibration of the machine that a study uses: the same for all its runs, so that predictions
// for a program do not change from one run to the next.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "studies/configure.h"
#include "studies/study_directory.h"

namespace plimsoll::studies {

// Runs one step of each row that needs calibration, so that it measures the machine, then copies
// all calibrations (trainer/settle/calibration.h) to the study's directory, once. Returns that
// folder, or "" when `stopped` returned true; then nothing is copied.
std::string FixCalibration(const Study& study, const std::vector<StudyRow>& rows,
                           const StudyDirectory& directory, const std::function<bool()>& stopped,
                           const std::function<void(const std::string&)>& say);

}  // namespace plimsoll::studies
