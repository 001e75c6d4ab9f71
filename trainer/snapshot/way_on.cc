#include "trainer/snapshot/way_on.h"

#include <fmt/format.h>

#include "snapshots/folder.h"
#include "trainer/snapshot/resume.h"

namespace plimsoll::trainer {
namespace {

// As one word of a shell's command.
std::string Quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string ResumeCommand(const std::string& file, const std::vector<std::string>& sets) {
  std::string command = "plimsoll train " + Quoted(file);
  for (const std::string& set : sets) command += " --set " + Quoted(set);
  return command + " --resume auto";
}

std::optional<int64_t> NewestSnapshot(const std::string& run_directory) {
  const std::vector<int64_t> steps = snapshots::Folder(SnapshotsOf(run_directory)).Steps();
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

std::string GoesOnText(const std::string& command, int ranks) {
  const std::string what = command.empty() ? "--resume auto" : command;
  return ranks > 1 ? fmt::format("{} on {} ranks goes on", what, ranks) : what + " goes on";
}

}  // namespace plimsoll::trainer
