// What a study knows of its machine: the same for all its runs, so that what is predicted of a
// program does not change from one run to the next.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "studies/configure.h"
#include "studies/study_directory.h"

namespace plimsoll::studies {

// Lets one run of each row that depends on it measure what it needs to know, for a step, and copies
// all that is known then (trainer/settle/calibration.h) to the study's directory, once. Returns
// that folder, or "" when `stopped` said so; then nothing is copied.
std::string FixCalibration(const Study& study, const std::vector<StudyRow>& rows,
                           const StudyDirectory& directory, const std::function<bool()>& stopped,
                           const std::function<void(const std::string&)>& say);

}  // namespace plimsoll::studies
