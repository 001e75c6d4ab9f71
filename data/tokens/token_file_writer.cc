#include "data/tokens/token_file_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/output_file.h"
#include "data/tokens/token_file.h"

namespace plimsoll::data {

TokenFileWriter::TokenFileWriter(std::string path, const TokenFileForm& form)
    : path_(std::move(path)),
      target_(FollowLinks(path_)),
      temporary_(fmt::format("{}.{}.part", target_, getpid())),
      form_(form) {
  struct stat there = {};
  if (stat(target_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    throw UserError(path_ + ": is not a regular file; name another folder");
  }
  file_ = std::fopen(temporary_.c_str(), "wbxe");
  if (file_ == nullptr) Fail("cannot be created");
  if (form_.header) {
    const std::array<int32_t, kHeaderInts> zeros = {};
    Write(zeros.data(), sizeof zeros);
  }
}

TokenFileWriter::TokenFileWriter(TokenFileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      form_(other.form_),
      file_(std::exchange(other.file_, nullptr)),
      tokens_(other.tokens_) {}

TokenFileWriter::~TokenFileWriter() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void TokenFileWriter::Fail(const char* what) const {
  throw UserError(fmt::format("{}: {}: {}; check the folder and its free space", path_, what,
                              std::strerror(errno)));
}

void TokenFileWriter::Write(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_) != bytes) Fail("cannot be written");
}

void TokenFileWriter::Append(std::span<const int32_t> ids) {
  const int32_t limit =
      form_.width == 2 ? std::numeric_limits<uint16_t>::max() : std::numeric_limits<int32_t>::max();
  std::array<uint16_t, 4096> narrow;
  while (!ids.empty()) {
    const size_t count = std::min(ids.size(), narrow.size());
    for (size_t i = 0; i < count; ++i) {
      if (ids[i] < 0 || ids[i] > limit) {
        throw InternalError(
            fmt::format("{}: id {} does not fit {} bytes", path_, ids[i], form_.width));
      }
      narrow[i] = static_cast<uint16_t>(ids[i]);
    }
    if (form_.width == 2) {
      Write(narrow.data(), count * sizeof(uint16_t));
    } else {
      Write(ids.data(), count * sizeof(int32_t));
    }
    tokens_ += static_cast<int64_t>(count);
    ids = ids.subspan(count);
  }
}

void TokenFileWriter::Finish() {
  if (form_.header) {
    if (tokens_ > std::numeric_limits<int32_t>::max()) {
      throw UserError(
          fmt::format("{}: {} tokens are more than an llm.c header can count; write smaller shards",
                      path_, tokens_));
    }
    const bool narrow = form_.width == 2;
    const std::array<int32_t, 3> header = {narrow ? kUint16Magic : kUint32Magic,
                                           narrow ? kUint16Version : kUint32Version,
                                           static_cast<int32_t>(tokens_)};
    if (std::fseek(file_, 0, SEEK_SET) != 0) Fail("cannot be written");
    Write(header.data(), sizeof header);
  }
  if (std::fflush(file_) != 0 || fsync(fileno(file_)) != 0) Fail("cannot be written");
  if (std::fclose(std::exchange(file_, nullptr)) != 0) Fail("cannot be closed");
}

void TokenFileWriter::Commit() {
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) Fail("cannot be renamed into place");
  temporary_.clear();
  // The rename itself must survive a power cut: sync the folder's entry to the disk as well.
  const std::string folder = std::filesystem::path(target_).parent_path().string();
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
}

}  // namespace plimsoll::data
