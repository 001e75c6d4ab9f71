// The profile of a step: records when each node ran. Makes a table of op kinds and shapes, with the
// time that the device would need at its ceilings, and a trace for a viewer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/measured_rates.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "trainer/record/run_directory.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// One run of a program.
struct ProgramRun {
  int64_t step = 0;
  int program = 0;      // index in CompiledStep::programs
  double start_us = 0;  // since the first collected run
  // Times of nodes in the order of their start, without views.
  std::vector<runtime::NodeTime> nodes;
};

// Collects runs. The session must be made with ExecutorOptions::profile.
class ProfileCollector {
 public:
  explicit ProfileCollector(Session& session) : session_(session) {}

  // Call these before and after Session::Run. Both wait for the device.
  void Before(int64_t micro_step);
  void After(int64_t step, int64_t micro_step);

  const std::vector<ProgramRun>& runs() const { return runs_; }

 private:
  using Clock = std::chrono::steady_clock;
  runtime::Executor& ExecutorOf(int64_t micro_step);

  Session& session_;
  std::vector<ProgramRun> runs_;
  std::vector<int64_t> nanoseconds_before_;  // for each node, its time in all runs so far
  Clock::time_point first_, now_;
};

// The times of a program's nodes in sequence, for a device without streams. Views, which take no
// time, are omitted.
std::vector<runtime::NodeTime> InSequence(const std::vector<int64_t>& node_nanoseconds);

// All nodes with the same op, phase and shapes, in an average step.
struct OpGroup {
  std::string op;
  graph::Phase phase = graph::Phase::kForward;
  std::string shapes;  // shapes of the first two inputs: "bf16[8,64] bf16[64,256]"
  double nodes = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;  // bytes to move, each argument once
  // The least time if the device works at its ceilings; 0 if these are unknown.
  double floor_seconds = 0;
  bool bound_by_flops = false;
};

// Work outside the compute stream, in an average step.
struct SideSeconds {
  double busy = 0;    // time on the streams outside the compute stream
  double waited = 0;  // the part of `busy` for which the compute stream waited
};

struct Profile {
  int64_t steps = 0;
  double step_seconds = 0;      // sum over programs, each from its start to its last node's end
  std::vector<OpGroup> groups;  // groups from the longest to the shortest
  SideSeconds copies, collectives;
  double data_seconds = 0;      // the main thread's time for data before a step's programs begin
  double node_seconds() const;  // sum over all groups; copies during computations count twice
  double floor_seconds() const;
  // The groups, merged by op.
  std::vector<OpGroup> ByOp() const;
};

// The FLOPs and bytes of one or more calls. `seconds_for_flops` sums the calls on the matrix units.
struct Work {
  double flops = 0, bytes = 0, seconds_for_flops = 0;

  void Add(const graph::OpCall& call, const runtime::Ceilings& ceilings);
};

// Computes the profile. An op on the matrix units (products, attention) takes at least the longer
// of two times: of its FLOPs at the rate of a large product, and of its bytes at the rate of a
// copy. Other ops take at least the time of their bytes.
Profile MakeProfile(const CompiledStep& compiled, const std::vector<ProgramRun>& runs,
                    const runtime::Ceilings& ceilings);

// A table of the `rows` longest groups; one more line sums up all other groups.
std::string ProfileTable(const Profile& profile, const std::vector<OpGroup>& groups, size_t rows);

// The trace in Chrome's trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing
// show: a track per stream, nodes with their scope, phase and arguments, and the live bytes as a
// counter.
std::string TraceJson(const CompiledStep& compiled, const std::vector<ProgramRun>& runs,
                      const std::string& device);

// The steps to profile, from `plimsoll train --profile[=FIRST:COUNT]`.
struct ProfiledSteps {
  int64_t first = 3;  // first step, counted from 0; steps before the default are slower
  int64_t count = 3;
};

// Parses "10:5", "10" (three steps from step 10 on) or "" (the defaults). Throws a UserError for
// other texts, and if a run of `steps` steps lacks these steps.
ProfiledSteps ParseProfiledSteps(std::string_view text, int64_t steps);

// Times the nodes of some steps of a run, prints where the time went and writes trace.json to the
// run directory (docs/profiling.md).
class RunProfiler {
 public:
  // Measures the device's ceilings, so it must be created before the arena takes its memory.
  RunProfiler(runtime::Device& device, const ProfiledSteps& steps)
      : steps_(steps),
        device_name_(device.name()),
        ceilings_(runtime::MeasureCeilings(device.kind())) {}

  // The session must be made with ExecutorOptions::profile, and outlive the profiler.
  void Watch(Session& session) { collector_.emplace(session); }

  bool Covers(int64_t step) const {
    return step >= steps_.first && step < steps_.first + steps_.count;
  }
  // Call these before and after Session::Run of the covered steps.
  void Before(int64_t micro_step) { collector_->Before(micro_step); }
  void After(int64_t step, int64_t micro_step) { collector_->After(step, micro_step); }
  // Adds the seconds that the main thread spent on the data of one covered step.
  void AddData(double seconds) { data_seconds_ += seconds; }

  // Call this after the last covered step. Writes trace.json and profile.json, and returns the text
  // to print.
  bool LastIs(int64_t step) const { return step == steps_.first + steps_.count - 1; }
  std::string Finish(const CompiledStep& compiled, const RunDirectory& directory) const;

 private:
  ProfiledSteps steps_;
  std::string device_name_;
  runtime::Ceilings ceilings_;
  std::optional<ProfileCollector> collector_;
  double data_seconds_ = 0;
};

}  // namespace plimsoll::trainer
