// `plimsoll plan NEW --diff OLD`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/input_file.h"
#include "base/message.h"
#include "trainer/plan/plan_command.h"
#include "trainer/plan/plan_difference.h"

namespace plimsoll::trainer {
namespace {

// The most bytes of a saved plan. Plans from `plan --json` are smaller than a megabyte.
constexpr size_t kMostPlanBytes = size_t{256} << 20;

// Parses "1%" and "0.5 %" to 0.01 and 0.005.
double ShareFrom(const std::string& text) {
  double percent = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, percent);
  std::string rest(end, last);
  std::erase(rest, ' ');
  if (error != std::errc() || rest != "%" || !std::isfinite(percent) || percent < 0) {
    throw UserError(fmt::format(
        "--fail-above: {} is no allowed growth; give a percentage of at least 0, such as 1%",
        text));
  }
  return percent / 100;
}

// Refuses options that need a single plan.
void RefuseOtherQuestions(const PlanCommand& command) {
  const auto refuse = [](bool asked, const char* option, const char* why) {
    if (!asked) return;
    throw UserError(fmt::format(
        "plimsoll plan: --diff compares two plans, and {} {}; leave out one of them", option, why));
  };
  refuse(command.sweep > 0, "--sweep", "makes many");
  refuse(!command.largest.empty(), "--max", "looks for a key's largest value");
  refuse(command.ranks > 0, "--ranks", "goes through meshes");
  refuse(command.parameters, "--parameters", "lists parameters");
  refuse(!command.html.empty(), "--html", "draws one");
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// The new plan's name: "run.yaml", or "run.yaml with amp.dtype=fp16", because OLD may be the same
// file.
std::string NewName(const PlanCommand& command) {
  std::vector<std::string> changes = command.sets;
  if (!command.budget.empty()) changes.push_back("memory.budget=" + command.budget);
  if (changes.empty()) return command.file;
  return fmt::format("{} with {}", command.file, fmt::join(changes, ", "));
}

// The older plan: made from a run file, or read from a saved plan.
NamedPlan OldPlan(const PlanCommand& command) {
  namespace fs = std::filesystem;
  std::string path = command.diff;
  std::error_code error;
  if (fs::is_directory(path, error)) path += "/config.yaml";
  // A shipped configuration need not be on disk.
  const bool readable = fs::exists(path, error) && !fs::is_directory(path, error);
  const bool regular = fs::is_regular_file(path, error);
  const std::string text = readable ? ReadInput(path, kMostPlanBytes) : "";
  if (LooksLikePlan(text)) return ParsePlan(text, path);
  if (readable && !regular) {
    throw UserError(
        fmt::format("{}: --diff reads no run file from a pipe, and this is no plan that plan "
                    "--json saved; name a file",
                    path));
  }
  PlanCommand old;
  old.file = path;
  old.device = command.device;
  old.started = command.started;
  old.diff = command.diff;
  NamedPlan plan{path, {}};
  try {
    PlanInto(old, plan.plan);
  } catch (const UserError& problem) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    const bool json = first != text.npos && (text[first] == '{' || text[first] == '[');
    if (!json || problem.code() != ExitCode::kUserMistake) throw;
    throw UserError(fmt::format("{}; and as a plan that plan --json saved it has no arena_bytes",
                                FirstLine(problem.what())));
  }
  return plan;
}

}  // namespace

ExitCode RunPlanDiff(const PlanCommand& command) {
  RefuseOtherQuestions(command);
  std::optional<double> allowed;
  if (!command.fail_above.empty()) allowed = ShareFrom(command.fail_above);
  NamedPlan old = OldPlan(command);
  NamedPlan now{NewName(command), {}};
  const ExitCode code = PlanInto(command, now.plan);
  const PlanDifference difference(std::move(now), std::move(old));
  // Computed before anything is printed, because it may throw.
  std::vector<std::string> grown;
  if (allowed) grown = difference.Grown(*allowed);
  if (command.json) {
    nlohmann::ordered_json json = difference.Json();
    if (allowed) json["above"] = grown;
    PrintAnswer(json.dump(1) + "\n");
  } else {
    PrintAnswer(difference.Text());
  }
  std::string line;
  for (const std::string& figure : grown) line += (line.empty() ? "" : "; ") + figure;
  if (!line.empty()) {
    PrintError(fmt::format("above --fail-above {}: {}", command.fail_above, line));
  }
  if (code != ExitCode::kDone) {
    PrintError(
        fmt::format("{}: this plan doesn't fit its GPU; plan it without --diff", command.file));
    return code;
  }
  return line.empty() ? ExitCode::kDone : kGrown;
}

}  // namespace plimsoll::trainer
