// A file that appears complete or not at all. Bytes are written to a temporary file in the same
// folder. Commit() makes them durable, unless told not to, and renames the file. Without Commit()
// the temporary file is removed. Symbolic links stay: the file to which they lead is replaced. A
// device, a pipe or /dev/stdout is written to directly. Errors are UserErrors naming the file.
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
  // file may lack its bytes; meant for files that are written again and again.
  enum class Sync { kYes, kNo };
  void Commit(Sync sync = Sync::kYes);

 private:
  void Flush();
  [[noreturn]] void Fail(const char* what) const;  // throws with errno's reason

  std::string path_;       // path given to the constructor
  std::string target_;     // file to which the path leads
  std::string temporary_;  // empty: bytes are written in place
  int file_ = -1;
  std::vector<std::byte> buffer_;
};

// Writes a file whose content is the text.
void WriteWhole(const std::string& path, std::string_view text,
                OutputFile::Sync sync = OutputFile::Sync::kYes);

// Makes changes of names in a folder survive a power cut. Empty: the working directory. A file
// system that cannot sync folders is no failure.
void SyncNames(const std::string& folder);

// The path to which symbolic links lead, even if the target doesn't exist yet.
std::string FollowLinks(const std::string& path);

// Functions for an output file that the user has named. They throw a UserError that names `option`
// ("--html") if this process has read that file.
void RefuseInput(const std::string& path, const std::string& option);
void WriteOutput(const std::string& path, const std::string& option, std::string_view text);

}  // namespace plimsoll
