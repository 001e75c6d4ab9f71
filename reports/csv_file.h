// Writes rows of metrics as one table, with the same columns from the first line to the last.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace plimsoll::reports {

// Format: RFC 4180, with "\n" as line end. Errors are UserErrors that name the file.
class CsvFile {
 public:
  // With `append`, continues a file that has the same columns; throws UserError when it has others.
  // Otherwise, or if there is no file, starts a new one.
  CsvFile(const std::string& path, std::vector<std::string> columns, bool append = false);
  ~CsvFile();
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  // Adds an object of numbers and texts. Members that are absent or null become empty cells; a
  // member without a column is an error.
  void AddRow(const nlohmann::ordered_json& row);

 private:
  void WriteLine(const std::string& line);

  std::string path_;
  std::vector<std::string> columns_;
  std::FILE* file_;
};

}  // namespace plimsoll::reports
