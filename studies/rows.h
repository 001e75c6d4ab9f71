// Reads the rows of a study from the files that its runs left.
#pragma once

#include <vector>

#include "studies/configure.h"
#include "studies/results.h"
#include "studies/study_directory.h"

namespace plimsoll::studies {

// The row's results, from its own runs alone.
Row ReadRow(const Study& study, const StudyRow& row, const StudyDirectory& directory);

// One result for each of `rows`, in their order; rows that did not run are marked so. Runs that
// claim the same losses share one curve, and rows beyond the study's limits (broken) are marked.
std::vector<Row> ReadRows(const Study& study, const std::vector<StudyRow>& rows,
                          const StudyDirectory& directory);

// The number of runs of the row that the study asks for; more follow when times vary.
size_t PlannedRuns(const Study& study, const StudyRow& row);

// The index of the row that the others are compared with.
size_t BaselineIndex(const Study& study, const std::vector<StudyRow>& rows);

}  // namespace plimsoll::studies
