// The profile of a step: when each node ran, and what follows from it: a table of op kinds and
// shapes, next to the time that the device would need at its ceilings, and a trace for a viewer.
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
  int program = 0;                       // index in CompiledStep::programs
  double start_us = 0;                   // since the first of the runs that were collected
  std::vector<runtime::NodeTime> nodes;  // in the order in which they started; views are absent
};

// Collects runs. The session must have been made with ExecutorOptions::profile.
class ProfileCollector {
 public:
  explicit ProfileCollector(Session& session) : session_(session) {}

  // To be called before and after Session::Run. Both wait for the device.
  void Before(int64_t micro_step);
  void After(int64_t step, int64_t micro_step);

  const std::vector<ProgramRun>& runs() const { return runs_; }

 private:
  using Clock = std::chrono::steady_clock;
  runtime::Executor& ExecutorOf(int64_t micro_step);

  Session& session_;
  std::vector<ProgramRun> runs_;
  std::vector<int64_t> nanoseconds_before_;  // of the program's nodes, in all runs so far
  Clock::time_point first_, now_;
};

// The times of a program's nodes in sequence, as a device without streams runs them. Leaves out
// nodes that took no time, which are views.
std::vector<runtime::NodeTime> InSequence(const std::vector<int64_t>& node_nanoseconds);

// The nodes of one op, phase and shapes, in an average step.
struct OpGroup {
  std::string op;
  graph::Phase phase = graph::Phase::kForward;
  std::string shapes;  // of the first two inputs: "bf16[8,64] bf16[64,256]"
  double nodes = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;          // that must be moved: each argument once
  double floor_seconds = 0;  // at the ceilings; 0 where these are not known
  bool bound_by_flops = false;
};

// Work outside the compute stream, in an average step.
struct SideSeconds {
  double busy = 0;    // on its own streams
  double waited = 0;  // the part of it that the compute stream waited for
};

struct Profile {
  int64_t steps = 0;
  double step_seconds = 0;      // from a program's start to its last node's end, summed up
  std::vector<OpGroup> groups;  // longest first
  SideSeconds copies, collectives;
  double data_seconds = 0;  // of the thread that makes the steps, before a step's programs begin
  double node_seconds() const;  // of all groups; copies under computations count twice
  double floor_seconds() const;
  // The same with all groups of one op merged.
  std::vector<OpGroup> ByOp() const;
};

// Of one or more calls. `seconds_for_flops`: of those that run on the matrix units.
struct Work {
  double flops = 0, bytes = 0, seconds_for_flops = 0;

  void Add(const graph::OpCall& call, const runtime::Ceilings& ceilings);
};

// Ops that run on the matrix units (products, attention) need their FLOPs at the rate of a large
// product, or their bytes at the rate of a copy, whichever takes longer; all others need their
// bytes.
Profile MakeProfile(const CompiledStep& compiled, const std::vector<ProgramRun>& runs,
                    const runtime::Ceilings& ceilings);

// The `rows` longest groups; one line sums up the others.
std::string ProfileTable(const Profile& profile, const std::vector<OpGroup>& groups, size_t rows);

// Chrome's trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing show: a track per
// stream, nodes with their scope, phase and arguments, and the bytes alive as a counter.
std::string TraceJson(const CompiledStep& compiled, const std::vector<ProgramRun>& runs,
                      const std::string& device);

// The steps of `plimsoll train --profile[=FIRST:COUNT]`.
struct ProfiledSteps {
  int64_t first = 3;  // counted from 0; the steps before are slower
  int64_t count = 3;
};

// "10:5", "10" (three steps from there on) or "" (the defaults). UserError on anything else, and
// when a run of `steps` steps does not have these steps.
ProfiledSteps ParseProfiledSteps(std::string_view text, int64_t steps);

// Times the nodes of some steps of a run, prints where the time went and leaves trace.json in the
// run directory (docs/profiling.md).
class RunProfiler {
 public:
  // Measures the device's ceilings, so it must come before the arena takes its memory.
  RunProfiler(runtime::Device& device, const ProfiledSteps& steps)
      : steps_(steps),
        device_name_(device.name()),
        ceilings_(runtime::MeasureCeilings(device.kind())) {}

  // The session must have been made with ExecutorOptions::profile, and outlive the profiler's use.
  void Watch(Session& session) { collector_.emplace(session); }

  bool Covers(int64_t step) const {
    return step >= steps_.first && step < steps_.first + steps_.count;
  }
  // To be called before and after Session::Run of the covered steps.
  void Before(int64_t micro_step) { collector_->Before(micro_step); }
  void After(int64_t step, int64_t micro_step) { collector_->After(step, micro_step); }
  // Of one of them: the time that the thread which makes the steps spent on its data.
  void AddData(double seconds) { data_seconds_ += seconds; }

  // To be called after the last covered step: writes trace.json and profile.json, and returns the
  // text to print.
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
