// A regular file that several threads read at once, each where it likes. Unlike a mapping
// (base/mapped_file.h) it is read by the system in pieces as large as the reader's, and a file that
// another program shortens is an error, not the end of the process. Errors are UserErrors naming
// the file.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace plimsoll {

class RandomAccessFile {
 public:
  // Opens the regular file `path`. What is read later is of this file, also if the path leads to
  // another one by then. kNo: IsInput (base/input_file.h) doesn't know it, which takes memory for
  // each file; for files by the million.
  enum class Noted { kYes, kNo };
  explicit RandomAccessFile(const std::string& path, Noted noted = Noted::kYes);
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&& other) noexcept;
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  ~RandomAccessFile();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  int64_t bytes() const { return info_.st_size; }  // when it was opened

  // Fills `to` with the bytes from `offset` on, all of which lie within bytes().
  void Read(int64_t offset, std::span<std::byte> to) const;
  // Lets the system begin to fetch bytes that will be read soon.
  void WillRead(int64_t offset, int64_t bytes) const;
  // Throws if the file was written since it was opened: what was read may be of two versions.
  void RequireUnchanged() const;

 private:
  std::string path_;
  int descriptor_ = -1;
  struct stat info_ = {};
};

}  // namespace plimsoll
