#include "base/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <utility>

#include "base/errno_text.h"
#include "base/error.h"
#include "base/write_all.h"

namespace plimsoll {

LineFile::LineFile(std::string path, bool append)
    : path_(std::move(path)),
      file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC),
                 0666)) {
  if (file_ < 0) throw UserError(path_ + ": cannot write (" + ErrnoText(errno) + ")");
  bytes_ = lseek(file_, 0, SEEK_END);
}

LineFile::~LineFile() { close(file_); }

void LineFile::Append(const std::string& line) {
  const std::string whole = line + "\n";
  if (!WriteAll(file_, std::as_bytes(std::span(whole)))) {
    const int error = errno;
    // Removes the incomplete line, which would spoil the lines after it.
    if (ftruncate(file_, bytes_) == 0) lseek(file_, bytes_, SEEK_SET);
    throw UserError(path_ + ": cannot write (" + ErrnoText(error) + ")", ExitCode::kInternal);
  }
  bytes_ += static_cast<int64_t>(whole.size());
}

void LineFile::Sync() const { fdatasync(file_); }

}  // namespace plimsoll
