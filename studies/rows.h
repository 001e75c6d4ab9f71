// The rows of a study from what its runs left behind.
#pragma once

#include <vector>

#include "studies/configure.h"
#include "studies/results.h"
#include "studies/study_directory.h"

namespace plimsoll::studies {

// One for each of `rows`, in their order; those that did not run say so. Rows beyond the study's
// limits (broken) are marked.
std::vector<Row> ReadRows(const Study& study, const std::vector<StudyRow>& rows,
                          const StudyDirectory& directory);

// The index of the row that others are compared with.
size_t BaselineIndex(const Study& study, const std::vector<StudyRow>& rows);

}  // namespace plimsoll::studies
