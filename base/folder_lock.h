// A lock on a folder, held by one process until the process ends, however it ends: flock(2) of a
// file in the folder, which names the holder.
#pragma once

#include <optional>
#include <string>

namespace plimsoll {

class FolderLock {
 public:
  // Locks an existing folder. Throws a UserError "FOLDER: process 12 on host a WORKS" when another
  // process holds the lock, or when the file cannot be made. On a file system without locks, warns
  // and takes none.
  FolderLock(const std::string& folder, const std::string& works);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  // False: the file was removed meanwhile.
  bool Take(const std::string& folder, const std::string& works);

  std::string path_;
  int file_ = -1;
};

// The holder of the folder's lock: "process 12 on host a"; nullopt when nobody holds it.
std::optional<std::string> LockHolder(const std::string& folder);

}  // namespace plimsoll
