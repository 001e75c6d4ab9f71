// A file that appears whole or not at all: bytes are written to a temporary name in the same
// folder; Commit() makes them durable, unless told not to, and renames the file. Without Commit()
// nothing is left behind. Symbolic links stay: the file to which they lead is replaced. Anything
// but a regular file (a device, a pipe, /dev/stdout) is written to directly. Errors are UserErrors
// naming the file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  // the folder must exist
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text);

  // Replaces the file at `path`. Nothing may be written afterwards. kNo: after a power cut the new
  // file may lack its bytes; for files that are written again and again.
  enum class Sync { kYes, kNo };
  void Commit(Sync sync = Sync::kYes);

 private:
  void Flush();
  [[noreturn]] void Fail(const char* what) const;  // with errno's reason

  std::string path_;       // as it was given
  std::string target_;     // the file to which it leads
  std::string temporary_;  // empty: writes in place
  int file_ = -1;
  std::vector<std::byte> buffer_;
};

// Writes a file that holds this text.
void WriteWhole(const std::string& path, std::string_view text,
                OutputFile::Sync sync = OutputFile::Sync::kYes);

// Makes changes of names in a folder survive a power cut; empty: in the working directory. If a
// file system cannot sync folders, that is no failure.
void SyncNames(const std::string& folder);

// Where symbolic links lead, even if the target doesn't exist yet.
std::string FollowLinks(const std::string& path);

// Checks a file to write that the user has named. Throws a UserError (`option`: "--html") when this
// process has read that file.
void RefuseInput(const std::string& path, const std::string& option);
void WriteOutput(const std::string& path, const std::string& option, std::string_view text);

}  // namespace plimsoll
