#include "trainer/save_and_resume/way_on.h"

#include <fmt/format.h>

#include "base/shell_quoted.h"
#include "snapshots/folder.h"
#include "trainer/save_and_resume/resume.h"

namespace plimsoll::trainer {

std::string ResumeCommand(const std::string& file, const std::vector<std::string>& sets) {
  std::string command = "plimsoll train " + ShellQuoted(file);
  for (const std::string& set : sets) command += " --set " + ShellQuoted(set);
  return command + " --resume auto";
}

std::optional<int64_t> NewestSnapshot(const std::string& run_directory) {
  const std::vector<int64_t> steps = snapshots::Folder(SnapshotsOf(run_directory)).Steps();
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

std::string ContinuesText(const std::string& command, int ranks) {
  const std::string what = command.empty() ? "--resume auto" : command;
  return ranks > 1 ? fmt::format("{} on {} ranks continues", what, ranks) : what + " continues";
}

}  // namespace plimsoll::trainer
