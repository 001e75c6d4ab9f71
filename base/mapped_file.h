// A file mapped read-only into memory: its pages belong to the page cache and cost no heap. Errors
// are UserErrors naming the file. If another program shortens a mapped file, SIGBUS ends the
// process, as with every mapping; writers should rename files, not rewrite them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

class MappedFile {
 public:
  // Maps the complete regular file `path`. An empty file gives an empty span.
  explicit MappedFile(const std::string& path);
  // Maps the complete regular file that is open as `descriptor`, which the caller keeps. `path` is
  // the file's name in messages.
  MappedFile(int descriptor, std::string path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(data_), size_}; }
  // Drops the memory of all pages read so far; the next use reads them again from the page cache.
  void Release() const;
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void Map(int descriptor);

  std::string path_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace plimsoll
