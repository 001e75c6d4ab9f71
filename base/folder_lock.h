// A lock on a folder, which one process holds until it ends, however it ends. The lock is flock(2)
// of a file in the folder; the file names the holder.
#pragma once

#include <optional>
#include <string>

namespace plimsoll {

class FolderLock {
 public:
  // Locks an existing folder. Throws a UserError "FOLDER: process 12 on host a WORKS" if another
  // process holds the lock, or if the file cannot be made. On a file system without locks, only
  // prints a warning.
  FolderLock(const std::string& folder, const std::string& works);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  // Returns false if the file was removed meanwhile.
  bool Take(const std::string& folder, const std::string& works);

  std::string path_;
  int file_ = -1;
};

// The holder of the folder's lock: "process 12 on host a"; nullopt if nobody holds it.
std::optional<std::string> LockHolder(const std::string& folder);

}  // namespace plimsoll
