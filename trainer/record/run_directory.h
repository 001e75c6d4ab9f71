// The output folder of a run: config.yaml (resolved), run.json (run_status.h), plan.json,
// metrics.jsonl, samples.jsonl, model/, model_ema/, snapshots/, slices/, samples/, and the files of
// run_reports.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/folder_lock.h"
#include "base/line_file.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// The file of reference log-probabilities of a run with preferences
// (trainer/save_and_resume/reference_log_probs.h).
inline constexpr const char* kReferenceFile = "reference_log_probs.safetensors";

class RunDirectory {
 public:
  // Makes sure that the run can be written: creates config.run.dir and the folder for its model,
  // and locks it until the end of this object or process. Throws a UserError (run.dir) if that
  // fails, or while another process trains there. Without a later Begin() or Continue(), no new
  // files remain. `writes` is true on the first rank only; other ranks write nothing.
  RunDirectory(const config::RunConfig& config, bool writes);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // Throws a UserError (run.dir) if the directory already holds a run that must not be replaced
  // (run.overwrite). Warns if it replaces a run that could resume from a snapshot.
  void RequireReplaceable(const config::RunConfig& config) const;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  // Starts the run, after all checks: removes the output of an earlier run and opens metrics.jsonl.
  void Begin();
  // Continues the run, maybe from an earlier step. metrics.jsonl and samples.jsonl keep only the
  // lines given here.
  void Continue(const std::vector<std::string>& metrics, const std::vector<std::string>& samples);

  // The folder for the trained weights of the model or its adapter.
  std::string model() const { return File(adapts_ ? "adapter" : "model"); }
  // The folder for the averaged weights.
  std::string averages() const { return model() + "_ema"; }

  // Writes a file, which appears either complete or not at all.
  void Write(const std::string& name, const std::string& content) const;
  // Appends a line to metrics.jsonl or samples.jsonl. If that fails, appends nothing and throws a
  // UserError.
  void AppendMetrics(const std::string& json);
  void AppendSample(const std::string& json);
  // Waits until all lines are on disk.
  void SyncLines() const;

 private:
  // Throws a UserError (run.dir) if a path is not a regular file, so that writing would wait for a
  // reader.
  void RequireFiles(const config::RunConfig& config) const;

  std::string path_;
  bool adapts_;
  bool writes_;
  bool created_ = false;
  std::optional<FolderLock> lock_;
  std::optional<LineFile> metrics_, samples_;
};

}  // namespace plimsoll::trainer
