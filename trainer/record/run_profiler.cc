#include "trainer/record/run_profiler.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/stage.h"

namespace plimsoll::trainer {
namespace {

constexpr size_t kRows = 15;

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// profile.json: milliseconds of an average step.
std::string TotalsJson(const Profile& profile) {
  const auto side = [](const SideSeconds& seconds) {
    return nlohmann::ordered_json{{"ms", seconds.busy * 1e3}, {"exposed_ms", seconds.waited * 1e3}};
  };
  return nlohmann::ordered_json{{"steps", profile.steps},
                                {"step_ms", profile.step_seconds * 1e3},
                                {"copies", side(profile.copies)},
                                {"collectives", side(profile.collectives)}}
             .dump(1) +
         "\n";
}

// Seconds of each stage of the start, in a line each.
std::string StartTable() {
  std::string text;
  for (const StageTime& stage : StageTimes()) {
    text += fmt::format("\n{:9.3f} {:8.3f}  {}{}{}", stage.begin, stage.end - stage.begin,
                        std::string(2 * static_cast<size_t>(stage.depth), ' '), stage.name,
                        stage.thread == 0 ? "" : fmt::format(" (thread {})", stage.thread));
  }
  return "start: seconds from the process's beginning, and in the stage" + text;
}

}  // namespace

ProfiledSteps ParseProfiledSteps(std::string_view text, int64_t steps) {
  ProfiledSteps result;
  if (text.empty()) {
    // If the run is shorter, its last steps are profiled.
    result.count = std::min(result.count, steps);
    result.first = std::min(result.first, steps - result.count);
    return result;
  }
  const size_t colon = text.find(':');
  const std::optional<int64_t> first = Number(text.substr(0, colon));
  std::optional<int64_t> count = result.count;
  if (colon != std::string_view::npos) count = Number(text.substr(colon + 1));
  if (!first || !count || *count == 0) {
    throw UserError(
        fmt::format("--profile={}: write FIRST:COUNT, the number of the first step and "
                    "how many, as in --profile=10:3",
                    text));
  }
  if (*count > steps || *first > steps - *count) {
    throw UserError(
        fmt::format("--profile={}: the run has the steps 0 to {} (train.steps); name "
                    "earlier ones or fewer",
                    text, steps - 1));
  }
  return {*first, *count};
}

std::string RunProfiler::Finish(const CompiledStep& compiled, const RunDirectory& directory) const {
  const std::vector<ProgramRun>& runs = collector_->runs();
  directory.Write("trace.json", TraceJson(compiled, runs, device_name_));
  const Profile profile = MakeProfile(compiled, runs, ceilings_);
  directory.Write("profile.json", TotalsJson(profile));
  std::string text =
      fmt::format("steps {} to {}, node by node on {}: {:.2f} ms a step", steps_.first,
                  steps_.first + steps_.count - 1, device_name_, profile.step_seconds * 1e3);
  if (ceilings_.copy_bytes > 0) {
    text += fmt::format(
        "; at its ceilings ({:.0f} TFLOP/s in bf16, {:.0f} in tf32, {:.1f} in fp32, copies {:.0f} "
        "GB/s) {:.2f} ms",
        ceilings_.bf16_flops * 1e-12, ceilings_.tf32_flops * 1e-12, ceilings_.fp32_flops * 1e-12,
        ceilings_.copy_bytes * 1e-9, profile.floor_seconds() * 1e3);
  }
  for (const auto& [name, side] :
       {std::pair{"copies", profile.copies}, {"collectives", profile.collectives}}) {
    if (side.busy == 0) continue;
    text += fmt::format("\n{} {:.2f} ms, of which computing waited for {:.2f} ms", name,
                        side.busy * 1e3, side.waited * 1e3);
  }
  return fmt::format("{}\n{}\n{}trace written to {}; open it in https://ui.perfetto.dev", StartTable(), text,
                     ProfileTable(profile, profile.groups, kRows), directory.File("trace.json"));
}

}  // namespace plimsoll::trainer
