// A regular file that several threads read at once, each at its own offset. Unlike a mapping
// (base/mapped_file.h), the system reads it in pieces of the reader's size, and a file that another
// program shortens is an error, not the end of the process. Errors are UserErrors naming the file.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace plimsoll {

class RandomAccessFile {
 public:
  // Opens the regular file `path`. Later reads are from this file, even if the path leads to
  // another file by then. kNo: the file is not noted for IsInput (base/input_file.h), which would
  // take memory for each file; meant for millions of files.
  enum class Noted { kYes, kNo };
  explicit RandomAccessFile(const std::string& path, Noted noted = Noted::kYes);
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&& other) noexcept;
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  ~RandomAccessFile();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  int64_t bytes() const { return info_.st_size; }  // size when the file was opened

  // Fills `to` with the bytes from `offset` on. All of them must be within bytes().
  void Read(int64_t offset, std::span<std::byte> to) const;
  // Lets the system begin to fetch bytes that will soon be read.
  void WillRead(int64_t offset, int64_t bytes) const;
  // Throws if the file was written since it was opened: bytes read so far may be of two versions.
  void RequireUnchanged() const;

 private:
  std::string path_;
  int descriptor_ = -1;
  struct stat info_ = {};
};

}  // namespace plimsoll
