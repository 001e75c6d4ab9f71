// The folder that a run leaves behind: config.yaml (resolved), plan.json, metrics.jsonl, model/,
// and what run_reports.h adds.
#pragma once

#include <cstdio>
#include <string>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

class RunDirectory {
 public:
  // Makes sure that the run can be written: creates config.run.dir and the folder for its model.
  // UserError (run.dir) when that fails, or when it holds a run already and run.overwrite is false.
  // Unless Begin() follows, nothing stays behind but what was there.
  // Other ranks than the first write nothing: `writes` false.
  explicit RunDirectory(const config::RunConfig& config, bool writes = true);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  // The run starts: takes away what a former run left and opens metrics.jsonl.
  void Begin();

  // Where the trained model goes.
  std::string model() const { return File("model"); }

  // Writes a whole file, which appears complete or not at all.
  void Write(const std::string& name, const std::string& content) const;
  // Appends a line to metrics.jsonl and flushes it.
  void AppendMetrics(const std::string& json);

 private:
  std::string path_;
  bool writes_;
  bool created_ = false;
  std::FILE* metrics_ = nullptr;
};

}  // namespace plimsoll::trainer
