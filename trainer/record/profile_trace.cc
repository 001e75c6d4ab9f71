// The trace of `plimsoll train --profile`, in Chrome's "Trace Event Format": complete events ("X")
// and counters ("C"); times in microseconds.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/stage.h"
#include "trainer/record/profile.h"

namespace plimsoll::trainer {
namespace {

using graph::TensorId;
using nlohmann::ordered_json;
using runtime::NodeTime;

constexpr int kProcess = 1;
// Tracks of the trace. The streams' tracks follow the phases' track.
constexpr int kPhases = 0, kFirstStream = 1;
constexpr const char* kStreams[] = {"compute", "copies to the host", "copies to the device"};
constexpr int kFirstOfStart = 100;  // after the streams of collectives, one per axis

ordered_json Named(const char* what, int track, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", kProcess}, {"tid", track}, {"args", {{"name", name}}}};
}

std::string NameOf(const graph::Node& node) {
  return node.scope.empty() ? node.op->name : node.scope + " " + node.op->name;
}

ordered_json Tensors(const graph::Program& program, const std::vector<TensorId>& ids) {
  ordered_json list = ordered_json::array();
  for (TensorId id : ids) {
    if (id == graph::kNoTensor) continue;
    const graph::Tensor& tensor = program.tensor(id);
    list.push_back(tensor.name + ": " + tensor.type.ToString());
  }
  return list;
}

class Trace {
 public:
  Trace(const CompiledStep& compiled, const std::string& device) : compiled_(compiled) {
    events_.push_back(Named("process_name", 0, device));
    events_.push_back(Named("thread_name", kPhases, "phases"));
    for (int i = 0; i < static_cast<int>(std::size(kStreams)); ++i) {
      events_.push_back(Named("thread_name", kFirstStream + i, kStreams[i]));
    }
    AddStart();
  }

  void Add(const ProgramRun& run) {
    const graph::Program& program = *compiled_.programs[run.program];
    for (const NodeTime& time : run.nodes) {
      const graph::Node& node = program.nodes()[time.node];
      AddPhase(run, program, time);
      AddNode(run, program, node, time);
      AddCounters(run, time);
    }
    EndPhase();
  }

  std::string Json() {
    return ordered_json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events_)}}.dump() +
           "\n";
  }

 private:
  // Adds the process's start-up, on a track for each of its threads. The profiled steps follow
  // directly; steps between are omitted.
  void AddStart() {
    int threads = 0;
    for (const StageTime& stage : StageTimes()) {
      for (; threads <= stage.thread; ++threads) {
        events_.push_back(Named("thread_name", kFirstOfStart + threads,
                                threads == 0 ? "start" : fmt::format("start, thread {}", threads)));
      }
      events_.push_back({{"name", stage.name},
                         {"cat", "start"},
                         {"ph", "X"},
                         {"ts", stage.begin * 1e6},
                         {"dur", (stage.end - stage.begin) * 1e6},
                         {"pid", kProcess},
                         {"tid", kFirstOfStart + stage.thread}});
      steps_us_ = std::max(steps_us_, stage.end * 1e6);
    }
  }

  double Begin(const ProgramRun& run, const NodeTime& time) const {
    return steps_us_ + run.start_us + time.start_us;
  }

  // Names the track of a stream beyond kStreams, when its first node arrives.
  void NameStream(int stream, const graph::Node& node) {
    if (stream < static_cast<int>(std::size(kStreams)) || !axes_.insert(stream).second) return;
    events_.push_back(Named("thread_name", kFirstStream + stream,
                            "collectives, " + node.attributes.GetWord("axis")));
  }

  void AddNode(const ProgramRun& run, const graph::Program& program, const graph::Node& node,
               const NodeTime& time) {
    NameStream(time.stream, node);
    ordered_json arguments = {{"node", time.node},
                              {"op", node.op->name},
                              {"phase", graph::Name(node.phase)},
                              {"reads", Tensors(program, node.inputs)},
                              {"writes", Tensors(program, node.outputs)}};
    if (time.nodes > 1) arguments["nodes"] = time.nodes;
    events_.push_back({{"name", NameOf(node)},
                       {"cat", graph::Name(node.phase)},
                       {"ph", "X"},
                       {"ts", Begin(run, time)},
                       {"dur", time.end_us - time.start_us},
                       {"pid", kProcess},
                       {"tid", kFirstStream + time.stream},
                       {"args", std::move(arguments)}});
  }

  void AddCounters(const ProgramRun& run, const NodeTime& time) {
    const memory::ProgramPlan& plan = compiled_.plan.programs[run.program];
    ordered_json bytes = {{"device", plan.live_bytes[time.node]}};
    if (compiled_.plan.host_arena_bytes > 0) bytes["host"] = plan.host_live_bytes[time.node];
    events_.push_back({{"name", "bytes alive"},
                       {"ph", "C"},
                       {"ts", Begin(run, time)},
                       {"pid", kProcess},
                       {"args", std::move(bytes)}});
  }

  // Merges consecutive nodes of one phase on the compute stream into a span.
  void AddPhase(const ProgramRun& run, const graph::Program& program, const NodeTime& time) {
    if (time.stream != 0) return;
    const std::string name =
        program.name() + ": " + std::string(graph::Name(program.nodes()[time.node].phase));
    if (name != phase_) EndPhase();
    if (phase_.empty()) phase_start_ = Begin(run, time);
    phase_ = name;
    phase_end_ = Begin(run, time) + time.end_us - time.start_us;
  }

  void EndPhase() {
    if (!phase_.empty()) {
      events_.push_back({{"name", phase_},
                         {"ph", "X"},
                         {"ts", phase_start_},
                         {"dur", phase_end_ - phase_start_},
                         {"pid", kProcess},
                         {"tid", kPhases}});
    }
    phase_.clear();
  }

  const CompiledStep& compiled_;
  ordered_json events_ = ordered_json::array();
  double steps_us_ = 0;  // start of the profiled steps
  std::set<int> axes_;   // streams of collectives whose tracks have names
  std::string phase_;
  double phase_start_ = 0, phase_end_ = 0;
};

}  // namespace

std::string TraceJson(const CompiledStep& compiled, const std::vector<ProgramRun>& runs,
                      const std::string& device) {
  Trace trace(compiled, device);
  for (const ProgramRun& run : runs) trace.Add(run);
  return trace.Json();
}

}  // namespace plimsoll::trainer
