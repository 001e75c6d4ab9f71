#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/input_file.h"
#include "base/replaced.h"
#include "reports/metric_files.h"

namespace plimsoll::reports {
namespace {

// The file's first line; empty if the file doesn't exist.
std::string FirstLine(const std::string& path) {
  std::string line;
  std::ifstream file = OpenFile(path);
  std::getline(file, line);
  return line;
}

}  // namespace

std::string CsvCell(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "";
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  return '"' + Replaced(text, {{"\"", "\"\""}}) + '"';
}

CsvFile::CsvFile(const std::string& path, std::vector<std::string> columns, bool append)
    : path_(path), columns_(std::move(columns)) {
  std::string header;
  for (const std::string& column : columns_)
    header += (header.empty() ? "" : ",") + CsvCell(column);
  const std::string found = append ? FirstLine(path) : "";
  if (!found.empty() && found != header) {
    throw UserError(path + ": has other columns than this program writes; move it away");
  }
  file_ = std::fopen(path.c_str(), append ? "a" : "w");
  if (file_ == nullptr) throw UserError(path + ": cannot write (" + std::strerror(errno) + ")");
  if (found.empty()) WriteLine(header);
}

CsvFile::~CsvFile() { std::fclose(file_); }

void CsvFile::AddRow(const nlohmann::ordered_json& row) {
  for (const auto& [key, value] : row.items()) {
    if (std::find(columns_.begin(), columns_.end(), key) == columns_.end()) {
      throw InternalError("CsvFile: " + path_ + " has no column " + key);
    }
  }
  std::string line;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (i > 0) line += ',';
    if (const auto found = row.find(columns_[i]); found != row.end()) line += CsvCell(*found);
  }
  WriteLine(line);
}

void CsvFile::WriteLine(const std::string& line) {
  if (std::fputs((line + "\n").c_str(), file_) < 0 || std::fflush(file_) != 0) {
    throw UserError(path_ + ": cannot write (" + std::strerror(errno) + ")", ExitCode::kInternal);
  }
}

}  // namespace plimsoll::reports
