// The directory of a study: study.yaml as it was given, a run directory for each run, and the
// results. A study that was stopped finds there what it has done.
#pragma once

#include <optional>
#include <string>

#include "base/folder_lock.h"
#include "studies/results.h"

namespace plimsoll::studies {

class StudyDirectory {
 public:
  // Claims the folder for the study with this fingerprint, of which `text` is the file: makes it,
  // or continues in it. UserError, with nothing changed, when it holds another study or anything
  // else, when it cannot be written, or when another process is at work in it.
  StudyDirectory(const std::string& path, const std::string& fingerprint, const std::string& text);

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  // Of a run: "runs/003-bf16.2", the second of that row.
  std::string Run(const std::string& row_folder, size_t run) const;
  void Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
  std::optional<FolderLock> lock_;
};

}  // namespace plimsoll::studies
