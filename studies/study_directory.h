// The directory of a study: study.yaml as it was given, a run directory for each run, and the
// results. A stopped study continues in its directory, and rows are read from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/folder_lock.h"
#include "studies/rows.h"

namespace plimsoll::studies {

class StudyDirectory {
 public:
  // Claims the folder for the study with this fingerprint, whose file is `text`: creates the
  // folder, or continues in it. Throws a UserError, and changes nothing, if the folder holds
  // another study or anything else, cannot be written, or is in use by another process.
  StudyDirectory(const std::string& path, const std::string& fingerprint, const std::string& text);

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  // The folder of a run: "runs/003-bf16.2" for the second run of that row.
  std::string Run(const std::string& row_folder, size_t run) const;
  void Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
  std::optional<FolderLock> lock_;
};

// Reads the row's results, only from its own runs.
Row ReadRow(const Study& study, const StudyRow& row, const StudyDirectory& directory);

// Reads one result for each of `rows`, in their order; rows that did not run are marked. Runs that
// claim the same losses share one curve. Rows beyond the study's limits (`broken`) are marked.
std::vector<Row> ReadRows(const Study& study, const std::vector<StudyRow>& rows,
                          const StudyDirectory& directory);

// The number of runs of the row that the study asks for. More runs are added if times vary.
size_t PlannedRuns(const Study& study, const StudyRow& row);

// The index of the row that other rows are compared with.
size_t BaselineIndex(const Study& study, const std::vector<StudyRow>& rows);

}  // namespace plimsoll::studies
