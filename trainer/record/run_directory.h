// The folder that a run leaves behind: config.yaml (resolved), run.json (run_status.h), plan.json,
// metrics.jsonl, samples.jsonl, model/, snapshots/, and what run_reports.h adds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/folder_lock.h"
#include "trainer/config/run_config.h"
#include "trainer/record/line_file.h"

namespace plimsoll::trainer {

class RunDirectory {
 public:
  // Makes sure that the run can be written: creates config.run.dir and the folder for its model,
  // and locks it until the end of this object or process. UserError (run.dir) when that fails, or
  // while another process trains there. Unless Begin() or Continue() follows, nothing stays behind
  // but what was there. Other ranks than the first write nothing: `writes` false.
  RunDirectory(const config::RunConfig& config, bool writes);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // UserError (run.dir) when it holds a run already that is not to be replaced (run.overwrite).
  void RequireReplaceable(const config::RunConfig& config) const;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  // The run starts, all checks behind it: takes away what a former run left and opens
  // metrics.jsonl.
  void Begin();
  // The run goes on, maybe from an earlier step: metrics.jsonl and samples.jsonl keep these lines.
  void Continue(const std::vector<std::string>& metrics, const std::vector<std::string>& samples);

  // Where what was trained goes: the model, or its adapter.
  std::string model() const { return File(adapts_ ? "adapter" : "model"); }

  // Writes a whole file, which appears complete or not at all.
  void Write(const std::string& name, const std::string& content) const;
  // Appends a line to metrics.jsonl or samples.jsonl, or, when that fails, nothing: UserError.
  void AppendMetrics(const std::string& json);
  void AppendSample(const std::string& json);
  // Waits until all lines are on disk.
  void SyncLines() const;

 private:
  std::string path_;
  bool adapts_;
  bool writes_;
  bool created_ = false;
  std::optional<FolderLock> lock_;
  std::optional<LineFile> metrics_, samples_;
};

}  // namespace plimsoll::trainer
