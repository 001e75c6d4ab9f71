// Writes metrics to a file that TensorBoard shows: `tensorboard --logdir RUNS`.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll::reports {

// Errors are UserErrors that name the file.
class EventFile {
 public:
  // Creates FOLDER/events.out.tfevents.SECONDS.HOST.PROCESS. Files of earlier runs stay:
  // TensorBoard reads all files in a folder.
  explicit EventFile(const std::string& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // The run goes on from this step: TensorBoard drops the events of earlier files from there on.
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
