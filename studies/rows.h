// The rows of a study from what its runs left behind.
#pragma once

#include <vector>

#include "studies/configure.h"
#include "studies/results.h"
#include "studies/study_directory.h"

namespace plimsoll::studies {

// What the row's own runs say.
Row ReadRow(const Study& study, const StudyRow& row, const StudyDirectory& directory);

// One for each of `rows`, in their order; those that did not run say so. Runs that claim the same
// losses share one curve, and rows beyond the study's limits (broken) are marked.
std::vector<Row> ReadRows(const Study& study, const std::vector<StudyRow>& rows,
                          const StudyDirectory& directory);

// How many runs of the row the study asks for; further ones follow where times vary.
size_t PlannedRuns(const Study& study, const StudyRow& row);

// The index of the row that others are compared with.
size_t BaselineIndex(const Study& study, const std::vector<StudyRow>& rows);

}  // namespace plimsoll::studies
