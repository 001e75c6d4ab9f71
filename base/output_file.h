// A file that appears whole or not at all: bytes go to a temporary name in the same folder, and
// Commit() makes them durable, unless told not to wait for that, and renames. Without Commit()
// nothing is left behind. Errors are UserErrors naming the file.
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

  std::string path_;
  std::string temporary_;
  int file_ = -1;
  std::vector<std::byte> buffer_;
};

}  // namespace plimsoll
