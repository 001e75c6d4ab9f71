// A temporary file without a name. Its disk space is free again when the process ends, however it
// ends, even by SIGKILL.
//
// The file lies in the folder that PreferScratchFolder() named, or else in TMPDIR (/tmp): in the
// first of the two that has enough free space, or else in the one that has more. UserErrors name
// the folder, the bytes and what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace plimsoll {

// Names a folder for scratch files. If the folder doesn't exist yet, its nearest existing parent is
// used. Empty: no preferred folder.
void PreferScratchFolder(const std::string& folder);

class ScratchFile {
 public:
  // The beginning ("a.txt.xz: cannot be unpacked") and the end ("unpack it yourself") of errors.
  struct Words {
    std::string what, way_out;
  };

  explicit ScratchFile(Words words, int64_t wanted_bytes = 0);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  // Appends the bytes, unbuffered.
  void Write(std::span<const std::byte> bytes);
  // Reads bytes; several threads may read at a time.
  void Read(int64_t offset, std::span<std::byte> bytes) const;
  // Sets the size that the file will have, for errors.
  void Expect(int64_t bytes) { expected_ = bytes; }

  int64_t bytes() const { return bytes_; }
  const std::string& folder() const { return folder_; }
  int descriptor() const { return file_; }

 private:
  [[noreturn]] void Fail(int error) const;

  Words words_;
  std::string folder_;
  int file_ = -1;
  int64_t bytes_ = 0, expected_ = 0;
};

}  // namespace plimsoll
