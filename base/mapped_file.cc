#include "base/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/errno_text.h"
#include "base/error.h"
#include "base/random_access_file.h"

namespace plimsoll {
namespace {

[[noreturn]] void Fail(const std::string& path, const char* what, int error) {
  throw UserError(path + ": " + what + ": " + ErrnoText(error));
}

}  // namespace

MappedFile::MappedFile(const std::string& path)
    : MappedFile(RandomAccessFile(path).descriptor(), path) {}

MappedFile::MappedFile(int descriptor, std::string path) : path_(std::move(path)) {
  Map(descriptor);
}

void MappedFile::Map(int descriptor) {
  struct stat info = {};
  if (fstat(descriptor, &info) != 0) Fail(path_, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode)) {
    throw UserError(path_ +
                    ": is not a regular file; name a file, or a pattern that matches files");
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) Fail(path_, "cannot be mapped", errno);
  data_ = data;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::Release() const {
  // Dropping pages of a read-only mapping loses nothing.
  if (data_ != nullptr) madvise(data_, size_, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace plimsoll
