#include "trainer/record/mlflow_facts.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/version.h"
#include "trainer/config/schema.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string WholePath(const std::string& path) {
  std::string whole = fs::absolute(path).lexically_normal();
  while (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  return whole;
}

}  // namespace

std::string MlflowFolder(const config::RunConfig& config) {
  std::string folder = config.log.mlflow;
  if (folder.empty()) return "";
  std::string named = "it";
  if (folder == "true") {
    folder = Environment("MLFLOW_TRACKING_URI");
    named = "MLFLOW_TRACKING_URI";
    if (folder.empty()) folder = "mlruns";
  }
  if (folder.starts_with("file://")) {
    folder.erase(0, 7);
  } else if (folder.starts_with("file:")) {
    folder.erase(0, 5);
  } else if (folder.find("://") != std::string::npos || folder == "databricks") {
    throw config.Error(
        "log.mlflow",
        fmt::format("{} is '{}', and Plimsoll writes MLflow's files, not to a server or a "
                    "database; name a folder (log.mlflow: mlruns), which `mlflow ui` shows",
                    named, folder));
  }
  return WholePath(folder);
}

reports::MlflowFacts MlflowFactsOf(const config::RunConfig& config) {
  const fs::path directory = WholePath(config.run.dir);
  reports::MlflowFacts facts;
  facts.experiment = Environment("MLFLOW_EXPERIMENT_NAME");
  if (facts.experiment.empty()) facts.experiment = directory.parent_path().filename();
  if (facts.experiment.empty()) facts.experiment = "plimsoll";  // run.dir is in the root folder
  facts.name = config.run.name.empty() ? directory.filename().string() : config.run.name;
  facts.user = Environment("USER");
  facts.files = directory;
  for (const config::Key& key : config::Schema()) {
    if (key.Applies(config)) facts.params.emplace_back(key.path, key.Text(config));
  }
  facts.tags = {{"mlflow.runName", facts.name},
                {"mlflow.user", facts.user},
                {"mlflow.source.name", "plimsoll"},
                {"mlflow.source.type", "LOCAL"},
                {"plimsoll.version", fmt::format("{} ({})", Version(), Commit())},
                {"plimsoll.run_dir", directory}};
  if (!config.run.notes.empty()) facts.tags.emplace_back("mlflow.note.content", config.run.notes);
  for (const std::string& tag : config.run.tags) facts.tags.emplace_back(tag, "true");
  return facts;
}

}  // namespace plimsoll::trainer
