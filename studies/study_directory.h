// The directory of a study: study.yaml as it was given, a run directory for each run, and the
// results. A stopped study continues from it.
#pragma once

#include <optional>
#include <string>

#include "base/folder_lock.h"
#include "studies/results.h"

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

}  // namespace plimsoll::studies
