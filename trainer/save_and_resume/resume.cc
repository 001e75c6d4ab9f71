#include "trainer/save_and_resume/resume.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <ranges>
#include <vector>

#include "base/error.h"
#include "base/folders.h"
#include "base/function_ref.h"
#include "base/message.h"
#include "snapshots/folder.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;

// The newest undamaged snapshot of steps `first` to `last`. Reports and skips damaged snapshots.
std::optional<std::string> NewestWhole(int64_t first, int64_t last,
                                       const snapshots::Folder& folder) {
  const std::vector<int64_t> steps = folder.Steps();
  for (const int64_t step : steps | std::views::reverse) {
    if (step < first || step > last) continue;
    const std::string path = folder.PathOf(step);
    try {
      snapshots::Snapshot(path).Verify();
      return path;
    } catch (const UserError& error) {
      PrintWarning(fmt::format("{}; looking for an older one", error.what()));
    }
  }
  return std::nullopt;
}

std::optional<std::string> NewestWhole(const snapshots::Folder& folder) {
  const auto found = NewestWhole(0, std::numeric_limits<int64_t>::max(), folder);
  if (found || folder.Steps().empty()) return found;
  throw UserError(
      folder.path() +
      ": none of the snapshots is complete; move them away to start from the beginning");
}

std::optional<std::string> Find(const std::string& resume, const config::RunConfig& config) {
  if (resume == "auto") {
    const snapshots::Folder folder(SnapshotsOf(config.run.dir));
    std::error_code error;
    if (!fs::is_directory(folder.path(), error)) return std::nullopt;
    folder.Recover();
    return NewestWhole(folder);
  }
  std::string path = resume;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (Exists(path + "/" + snapshots::kManifestFile)) return path;
  const auto newest = NewestWhole(snapshots::Folder(SnapshotsOf(path)));
  if (newest) return newest;
  throw UserError(
      fmt::format("--resume {}: is neither a snapshot (a folder with {}) nor a run "
                  "directory that has one",
                  resume, snapshots::kManifestFile));
}

std::optional<std::string> OnFirst(runtime::RankGroup& ranks,
                                   FunctionRef<std::optional<std::string>()> find) {
  std::string found;
  const std::string problem = FirstProblem(ranks, [&] {
    if (ranks.rank() == 0) found = find().value_or("");
  });
  if (!problem.empty()) throw UserError(problem);
  found = ranks.Broadcast(found);
  return found.empty() ? std::nullopt : std::optional(found);
}

}  // namespace

std::string SnapshotsOf(const std::string& run_directory) { return run_directory + "/snapshots"; }

std::string RunOfSnapshot(const std::string& snapshot) {
  fs::path path = fs::absolute(snapshot).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "…/" means the same folder
  return path.parent_path().parent_path().string();
}

std::optional<std::string> FindSnapshot(const std::string& resume, const config::RunConfig& config,
                                        runtime::RankGroup& ranks) {
  return OnFirst(ranks, [&] { return Find(resume, config); });
}

std::optional<std::string> FindGoodSnapshot(const config::RunConfig& config, int64_t good,
                                            int64_t failed, Ranks& ranks) {
  return OnFirst(ranks.group(), [&] {
    const snapshots::Folder folder(SnapshotsOf(config.run.dir));
    const auto found = NewestWhole(0, good, folder);
    return found ? found : NewestWhole(0, failed, folder);
  });
}

std::optional<std::string> FindSnapshotAfter(const config::RunConfig& config, int64_t steps,
                                             Ranks& ranks) {
  return OnFirst(ranks.group(), [&] {
    return NewestWhole(steps, steps, snapshots::Folder(SnapshotsOf(config.run.dir)));
  });
}

Resumed::Resumed(const std::string& path, const std::string& run_directory)
    : snapshot(path),
      record(ParseRunRecord(snapshot.manifest().run, path)),
      step(snapshot.manifest().step) {
  std::error_code error;
  continues = std::filesystem::equivalent(std::filesystem::path(path).parent_path(),
                                          SnapshotsOf(run_directory), error);
}

}  // namespace plimsoll::trainer
