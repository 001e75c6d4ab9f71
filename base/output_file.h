// A file that appears whole or not at all: bytes go to a temporary name in the same folder, and
// Commit() makes them durable, unless told not to wait for that, and renames. Without Commit()
// nothing is left behind. Symbolic links stay: what they lead to is replaced. What is no regular
// file (a device, a pipe, /dev/stdout) is written to as it is. Errors are UserErrors naming the
// file.
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

  // Replaces what was at `path`. Nothing may be written afterwards. kNo: a power cut may leave the
  // new file without its bytes; for what is written again and again.
  enum class Sync { kYes, kNo };
  void Commit(Sync sync = Sync::kYes);

 private:
  void Flush();
  [[noreturn]] void Fail(const char* what) const;  // with errno's reason

  std::string path_;       // as it was given
  std::string target_;     // what it leads to
  std::string temporary_;  // empty: written to in place
  int file_ = -1;
  std::vector<std::byte> buffer_;
};

// Where symbolic links lead, also to what isn't there yet.
std::string FollowLinks(const std::string& path);

// A whole file that the user has named. UserError (`option`: "--html") when it is one that this
// process has read.
void RefuseInput(const std::string& path, const std::string& option);
void WriteOutput(const std::string& path, const std::string& option, std::string_view text);

}  // namespace plimsoll
