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

// What a run of preferences keeps (trainer/save_and_resume/reference_log_probs.h).
inline constexpr const char* kReferenceFile = "reference_log_probs.safetensors";

class RunDirectory {
 public:
  // Makes sure that the run can be written: creates config.run.dir and the folder for its model,
  // and locks it until the end of this object or process. UserError (run.dir) when that fails, or
  // while another process trains there. Without a later Begin() or Continue(), nothing new stays
  // behind. `writes` is false on all ranks but the first, which write nothing.
  RunDirectory(const config::RunConfig& config, bool writes);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // UserError (run.dir) when it already holds a run that must not be replaced (run.overwrite).
  // Warns when one is replaced that could go on from a snapshot.
  void RequireReplaceable(const config::RunConfig& config) const;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  // The run starts, after all checks: removes the output of a former run and opens metrics.jsonl.
  void Begin();
  // The run continues, maybe from an earlier step: metrics.jsonl and samples.jsonl keep these
  // lines.
  void Continue(const std::vector<std::string>& metrics, const std::vector<std::string>& samples);

  // The folder for the trained weights: of the model, or of its adapter.
  std::string model() const { return File(adapts_ ? "adapter" : "model"); }
  // The same for their averages.
  std::string averages() const { return model() + "_ema"; }

  // Writes a whole file, which appears either complete or not at all.
  void Write(const std::string& name, const std::string& content) const;
  // Appends a whole line to metrics.jsonl or samples.jsonl, or nothing when that fails (UserError).
  void AppendMetrics(const std::string& json);
  void AppendSample(const std::string& json);
  // Waits until all lines are on disk.
  void SyncLines() const;

 private:
  // UserError (run.dir) where writing would wait for a reader.
  void RequireFiles(const config::RunConfig& config) const;

  std::string path_;
  bool adapts_;
  bool writes_;
  bool created_ = false;
  std::optional<FolderLock> lock_;
  std::optional<LineFile> metrics_, samples_;
};

}  // namespace plimsoll::trainer
