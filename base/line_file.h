// A file of lines that grows during a run: metrics.jsonl, samples.jsonl, curves for MLflow.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

class LineFile {
 public:
  // The file starts empty or, with `append`, after its existing lines. Throws a UserError if it
  // cannot be written.
  LineFile(std::string path, bool append);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Appends a complete line; if that fails, appends nothing and throws a UserError.
  void Append(const std::string& line);
  // Waits until all lines are on disk.
  void Sync() const;

 private:
  std::string path_;
  int file_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace plimsoll
