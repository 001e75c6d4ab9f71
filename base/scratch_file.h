// A temporary file without a name. Its room on the disk is free again when the process ends,
// however it ends, SIGKILL included.
//
// It lies in the folder that PreferScratchFolder() named, or else in TMPDIR (/tmp): in the first of
// them that has the room that is wanted, or in the one that has most. UserErrors name the folder,
// the bytes and the way out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace plimsoll {

// Names a folder, or one that is still to be made: its nearest parent that is there then counts.
// Empty: none.
void PreferScratchFolder(const std::string& folder);

class ScratchFile {
 public:
  // How errors begin ("a.txt.xz: cannot be unpacked") and end ("unpack it yourself").
  struct Words {
    std::string what, way_out;
  };

  explicit ScratchFile(Words words, int64_t wanted_bytes = 0);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  // Appends. Not buffered.
  void Write(std::span<const std::byte> bytes);
  // Several threads may read at a time.
  void Read(int64_t offset, std::span<std::byte> bytes) const;
  // The size that it will have, for errors.
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
