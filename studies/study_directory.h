// The directory of a study: study.yaml as it was given, a run directory for each run, and the
// results. A stopped study continues from it, and rows are read from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/folder_lock.h"
#include "studies/rows.h"

namespace plimsoll::studies {

class StudyDirectory {
 public:
  // Claims the folder for the study with this fingerprint, whose file is `text`: makes it, or
  // continues in it. UserError, with nothing changed, when it holds another study or anything else,
  // when it cannot be written, or when another process works in it.
  StudyDirectory(const std::string& path, const std::string& fingerprint, const std::string& text);

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  // The folder of a run: "runs/003-bf16.2", the second run of that row.
  std::string Run(const std::string& row_folder, size_t run) const;
  void Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
  std::optional<FolderLock> lock_;
};

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
