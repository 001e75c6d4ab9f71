// Writes metrics into files for other programs: a table for spreadsheets, and events for
// TensorBoard.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::reports {

// A number or a text as a CSV cell (RFC 4180); null becomes an empty cell.
std::string CsvCell(const nlohmann::ordered_json& value);

// Writes rows of metrics as one table, with the same columns from the first line to the last.
// Format: RFC 4180, with "\n" as line end. Errors are UserErrors that name the file.
class CsvFile {
 public:
  // With `append`, continues an existing file; throws a UserError if its columns differ. Otherwise,
  // or if the file doesn't exist, starts a new file.
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

// Event files, from which TensorBoard shows metrics (`tensorboard --logdir RUNS`). They consist of
// records in TensorFlow's TFRecord format; each record is an Event in Protocol Buffers
// (tensorflow/core/util/event.proto, framework/summary.proto).

// The bytes of a record: length (8 bytes), its masked checksum (4), the event, its masked checksum
// (4); little-endian.
std::string Record(std::string_view bytes);

// The bytes of events. `wall_time` is in seconds since 1970.
std::string VersionEvent(double wall_time);  // the first event of a file
// An event that invalidates the events of this step and later ones in earlier files of the folder.
std::string RestartEvent(double wall_time, int64_t step);
std::string ScalarEvent(double wall_time, int64_t step, std::string_view tag, double value);
// An event with Markdown for TensorBoard's text page.
std::string TextEvent(double wall_time, int64_t step, std::string_view tag, std::string_view text);

// Writes metrics to an event file. Errors are UserErrors that name the file.
class EventFile {
 public:
  // Creates FOLDER/events.out.tfevents.SECONDS.HOST.PROCESS. Files of earlier runs stay:
  // TensorBoard reads all files in a folder.
  explicit EventFile(const std::string& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Marks that the run continues from this step: TensorBoard drops the events of earlier files from
  // this step on.
  void Restart(int64_t step);
  // Adds every number in a row of metrics, at its "step": {"loss": 2.5} as train/loss,
  // {"eval_loss": 2.6} as eval/loss.
  void AddRow(const nlohmann::ordered_json& row);
  // Adds verbatim text to TensorBoard's text page.
  void AddText(const std::string& tag, const std::string& text, int64_t step);

  const std::string& path() const { return path_; }

 private:
  void Write(const std::string& records);

  std::string path_;
  std::FILE* file_;
};

}  // namespace plimsoll::reports
