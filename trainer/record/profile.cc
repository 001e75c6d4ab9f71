#include "trainer/record/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/stage.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using graph::OpCall;
using graph::Transfer;
using runtime::NodeTime;

// The matrix units' FLOPs per second for this call; 0 if the call does not run on matrix units.
double MatrixRate(const OpCall& call, const runtime::Ceilings& ceilings) {
  if (call.op.cost_class == graph::CostClass::kBandwidth) return 0;
  // Hopper multiplies 8-bit codes twice as fast as 16-bit numbers.
  if (graph::IsFloat8(call.input(0).dtype)) return 2 * ceilings.bf16_flops;
  if (call.input(0).dtype != DType::kFloat32) return ceilings.bf16_flops;
  const bool tf32 = call.attributes.Has("tf32") && call.attributes.GetBool("tf32");
  return tf32 ? ceilings.tf32_flops : ceilings.fp32_flops;
}

std::string ShapesOf(const OpCall& call) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(2, call.inputs.size()); ++i) {
    if (!call.has_input(i)) continue;
    text += (text.empty() ? "" : " ") + call.input(i).ToString();
  }
  return text;
}

// The work of a node's launch.
Work WorkOf(const graph::Program& program, const NodeTime& time,
            const runtime::Ceilings& ceilings) {
  Work work;
  for (int n = time.node; n < time.node + time.nodes; ++n) {
    const graph::Program::Call call = program.CallOf(program.nodes()[n]);
    if (!call.get().op.view) work.Add(call.get(), ceilings);
  }
  return work;
}

void AddTo(OpGroup& sum, const OpGroup& group) {
  sum.nodes += group.nodes;
  sum.seconds += group.seconds;
  sum.flops += group.flops;
  sum.bytes += group.bytes;
  sum.floor_seconds += group.floor_seconds;
  sum.bound_by_flops = sum.bound_by_flops || group.bound_by_flops;
}

// Adds a transfer's time. The compute stream waits for an …_done node, and for any transfer that
// runs on the compute stream itself, as on the CPU.
void AddSide(Profile& profile, const graph::OpDef& op, const NodeTime& time, double seconds) {
  if (op.transfer == Transfer::kNone) return;
  const bool copies = op.transfer == Transfer::kCopyStart || op.transfer == Transfer::kCopyDone;
  const bool done = op.transfer == Transfer::kCopyDone || op.transfer == Transfer::kCollectiveDone;
  SideSeconds* const side = copies ? &profile.copies : &profile.collectives;
  if (!done) side->busy += seconds;
  if (done || time.stream == 0) side->waited += seconds;
}

template <typename Map>
std::vector<OpGroup> LongestFirst(const Map& groups) {
  std::vector<OpGroup> sorted;
  for (const auto& [key, group] : groups) sorted.push_back(group);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OpGroup& a, const OpGroup& b) { return a.seconds > b.seconds; });
  return sorted;
}

// The rate of a group: "712 TFLOP/s" or "3640 GB/s".
std::string RateOf(const OpGroup& group) {
  if (group.seconds == 0) return "";
  if (group.bound_by_flops)
    return fmt::format("{:.0f} TFLOP/s", group.flops / group.seconds * 1e-12);
  return fmt::format("{:.0f} GB/s", group.bytes / group.seconds * 1e-9);
}

std::string Line(const OpGroup& group, double step_seconds) {
  std::string line = fmt::format("{:<30} {:<9} {:>5.0f} {:>9.3f} {:>6.1f}% {:>13}", group.op,
                                 graph::Name(group.phase), group.nodes, group.seconds * 1e3,
                                 100 * group.seconds / step_seconds, RateOf(group));
  if (group.floor_seconds > 0) {
    line += fmt::format(" {:>9.3f} {:>7.0f}% {:>8.3f}", group.floor_seconds * 1e3,
                        100 * group.floor_seconds / group.seconds,
                        (group.seconds - group.floor_seconds) * 1e3);
  } else {
    line += fmt::format(" {:>9} {:>8} {:>8}", "", "", "");
  }
  return line + "  " + group.shapes;
}

constexpr size_t kRows = 15;

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// The text of profile.json: milliseconds of an average step.
std::string TotalsJson(const Profile& profile) {
  const auto side = [](const SideSeconds& seconds) {
    return nlohmann::ordered_json{{"ms", seconds.busy * 1e3}, {"exposed_ms", seconds.waited * 1e3}};
  };
  return nlohmann::ordered_json{{"steps", profile.steps},
                                {"step_ms", profile.step_seconds * 1e3},
                                {"data_ms", profile.data_seconds * 1e3},
                                {"copies", side(profile.copies)},
                                {"collectives", side(profile.collectives)}}
             .dump(1) +
         "\n";
}

// The seconds of each start-up stage, one per line.
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

void Work::Add(const OpCall& call, const runtime::Ceilings& ceilings) {
  const graph::Cost cost = graph::CostOf(call);
  flops += cost.flops;
  bytes += cost.bytes;
  const double rate = MatrixRate(call, ceilings);
  if (rate > 0) seconds_for_flops += cost.flops / rate;
}

runtime::Executor& ProfileCollector::ExecutorOf(int64_t micro_step) {
  return session_.executor(session_.compiled().step.At(micro_step).program);
}

void ProfileCollector::Before(int64_t micro_step) {
  session_.device().Synchronize();
  nanoseconds_before_ = ExecutorOf(micro_step).node_nanoseconds();
  now_ = Clock::now();
  if (runs_.empty()) first_ = now_;
}

void ProfileCollector::After(int64_t step, int64_t micro_step) {
  ProgramRun run;
  run.step = step;
  run.program = session_.compiled().step.At(micro_step).program;
  run.start_us = std::chrono::duration<double, std::micro>(now_ - first_).count();
  const runtime::Executor& executor = ExecutorOf(micro_step);
  run.nodes = executor.node_times();
  if (run.nodes.empty()) {  // this device reports only durations
    std::vector<int64_t> nanoseconds = executor.node_nanoseconds();
    for (size_t n = 0; n < nanoseconds.size(); ++n) nanoseconds[n] -= nanoseconds_before_[n];
    run.nodes = InSequence(nanoseconds);
  }
  runs_.push_back(std::move(run));
}

std::vector<NodeTime> InSequence(const std::vector<int64_t>& node_nanoseconds) {
  std::vector<NodeTime> times;
  double at = 0;
  for (size_t n = 0; n < node_nanoseconds.size(); ++n) {
    if (node_nanoseconds[n] == 0) continue;
    NodeTime time;
    time.node = static_cast<int>(n);
    time.start_us = at;
    at += static_cast<double>(node_nanoseconds[n]) * 1e-3;
    time.end_us = at;
    times.push_back(time);
  }
  return times;
}

double Profile::node_seconds() const {
  double sum = 0;
  for (const OpGroup& group : groups) sum += group.seconds;
  return sum;
}

double Profile::floor_seconds() const {
  double sum = 0;
  for (const OpGroup& group : groups) sum += group.floor_seconds;
  return sum;
}

std::vector<OpGroup> Profile::ByOp() const {
  std::map<std::pair<std::string, graph::Phase>, OpGroup> by_op;
  for (const OpGroup& group : groups) {
    OpGroup& sum = by_op[{group.op, group.phase}];
    sum.op = group.op;
    sum.phase = group.phase;
    AddTo(sum, group);
  }
  return LongestFirst(by_op);
}

Profile MakeProfile(const CompiledStep& compiled, const std::vector<ProgramRun>& runs,
                    const runtime::Ceilings& ceilings) {
  Profile profile;
  std::map<std::tuple<std::string, graph::Phase, std::string>, OpGroup> groups;
  int64_t last_step = -1;
  for (const ProgramRun& run : runs) {
    if (run.step != last_step) ++profile.steps;
    last_step = run.step;
    const graph::Program& program = *compiled.programs[run.program];
    double end_us = 0;
    for (const NodeTime& time : run.nodes) {
      end_us = std::max(end_us, time.end_us);
      const graph::Node& node = program.nodes()[time.node];
      const graph::Program::Call call = program.CallOf(node);
      const std::string shapes =
          time.nodes > 1 ? fmt::format("{} at once", time.nodes) : ShapesOf(call.get());
      OpGroup& group = groups[{node.op->name, node.phase, shapes}];
      group.op = node.op->name;
      group.phase = node.phase;
      group.shapes = shapes;
      const Work work = WorkOf(program, time, ceilings);
      const double for_bytes = ceilings.copy_bytes > 0 ? work.bytes / ceilings.copy_bytes : 0;
      OpGroup launch;
      launch.nodes = time.nodes;
      launch.seconds = (time.end_us - time.start_us) * 1e-6;
      launch.flops = work.flops;
      launch.bytes = work.bytes;
      launch.floor_seconds = std::max(work.seconds_for_flops, for_bytes);
      launch.bound_by_flops = work.seconds_for_flops > for_bytes;
      AddTo(group, launch);
      AddSide(profile, *node.op, time, launch.seconds);
    }
    profile.step_seconds += end_us * 1e-6;
  }
  if (profile.steps == 0) return profile;
  const double steps = static_cast<double>(profile.steps);
  profile.step_seconds /= steps;
  for (SideSeconds* side : {&profile.copies, &profile.collectives}) {
    side->busy /= steps;
    side->waited /= steps;
  }
  for (auto& [key, group] : groups) {
    group.nodes /= steps;
    group.seconds /= steps;
    group.flops /= steps;
    group.bytes /= steps;
    group.floor_seconds /= steps;
  }
  profile.groups = LongestFirst(groups);
  return profile;
}

std::string ProfileTable(const Profile& profile, const std::vector<OpGroup>& groups, size_t rows) {
  std::string text =
      fmt::format("{:<30} {:<9} {:>5} {:>9} {:>7} {:>13} {:>9} {:>8} {:>8}\n", "op", "phase",
                  "nodes", "ms a step", "share", "rate", "floor ms", "of floor", "gap ms");
  OpGroup rest, total;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i < rows) {
      text += Line(groups[i], profile.step_seconds) + "\n";
    } else {
      AddTo(rest, groups[i]);
    }
    AddTo(total, groups[i]);
  }
  auto summary = [&](const char* name, const OpGroup& sum) {
    text += fmt::format("{:<40} {:>5.0f} {:>9.3f} {:>6.1f}%", name, sum.nodes, sum.seconds * 1e3,
                        100 * sum.seconds / profile.step_seconds);
    if (sum.floor_seconds > 0) {
      text += fmt::format(" {:>13} {:>9.3f} {:>7.0f}% {:>8.3f}", "", sum.floor_seconds * 1e3,
                          100 * sum.floor_seconds / sum.seconds,
                          (sum.seconds - sum.floor_seconds) * 1e3);
    }
    text += "\n";
  };
  if (groups.size() > rows) {
    summary(fmt::format("{} more", groups.size() - rows).c_str(), rest);
  }
  summary("all", total);
  return text;
}

ProfiledSteps ParseProfiledSteps(std::string_view text, int64_t steps) {
  ProfiledSteps result;
  if (text.empty()) {
    // If the run ends before the default steps, its last steps are profiled.
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
  Profile profile = MakeProfile(compiled, runs, ceilings_);
  profile.data_seconds = data_seconds_ / static_cast<double>(steps_.count);
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
  text += fmt::format("\ndata {:.2f} ms", profile.data_seconds * 1e3);
  for (const auto& [name, side] :
       {std::pair{"copies", profile.copies}, {"collectives", profile.collectives}}) {
    if (side.busy == 0) continue;
    text += fmt::format("\n{} {:.2f} ms, of which computing waited for {:.2f} ms", name,
                        side.busy * 1e3, side.waited * 1e3);
  }
  return fmt::format("{}\n{}\n{}trace written to {}; open it in https://ui.perfetto.dev",
                     StartTable(), text, ProfileTable(profile, profile.groups, kRows),
                     directory.File("trace.json"));
}

}  // namespace plimsoll::trainer
