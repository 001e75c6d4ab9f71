// Rows of metrics as one table: the same columns from the first line to the last.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace plimsoll::reports {

// As RFC 4180 has it, with "\n" for line ends. Errors are UserErrors that name the file.
class CsvFile {
 public:
  // With `append`, goes on with a file that has the same columns; UserError when it has others.
  // Otherwise, or where there is no file, starts one.
  CsvFile(const std::string& path, std::vector<std::string> columns, bool append = false);
  ~CsvFile();
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  // An object of numbers and texts. Members that are absent or null are empty cells; one that is no
  // column is an error.
  void AddRow(const nlohmann::ordered_json& row);

 private:
  void WriteLine(const std::string& line);

  std::string path_;
  std::vector<std::string> columns_;
  std::FILE* file_;
};

}  // namespace plimsoll::reports
