// A lock on a folder that one process holds, and that ends with the process however it ends:
// flock(2) of a file in it, which names the holder.
#pragma once

#include <optional>
#include <string>

namespace plimsoll {

class FolderLock {
 public:
  // Takes the lock of a folder that is there. UserError: "FOLDER: process 12 on host a WORKS", or
  // the file cannot be made. A file system without locks is warned of, and gives none.
  FolderLock(const std::string& folder, const std::string& works);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  // False: the file was taken away meanwhile.
  bool Take(const std::string& folder, const std::string& works);

  std::string path_;
  int file_ = -1;
};

// Who holds the folder's lock: "process 12 on host a". Nothing where nobody does.
std::optional<std::string> LockHolder(const std::string& folder);

}  // namespace plimsoll
