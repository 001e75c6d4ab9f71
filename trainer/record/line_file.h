// A file of lines that grows while a run goes on: metrics.jsonl, samples.jsonl.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::trainer {

class LineFile {
 public:
  // Empty at first, or, with `append`, behind what is there. UserError when it cannot be written.
  LineFile(std::string path, bool append);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Appends a line, or, when that fails, nothing: UserError.
  void Append(const std::string& line);
  // Waits until all lines are on disk.
  void Sync() const;

 private:
  std::string path_;
  int file_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace plimsoll::trainer
