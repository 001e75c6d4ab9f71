#include "trainer/resolve/channels.h"

#include <cstddef>
#include <span>

#include "base/axes.h"
#include "ops/collectives/collective.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

// The run with fixed values for open choices that do not change the bytes sent.
config::RunConfig Closed(const config::RunConfig& config, const models::Model& model) {
  config::RunConfig run = config;
  if (run.train.micro_batch == 0) {
    run.train.SetMicroSteps(model.sample_coupling().smallest_micro_batch(), run.train.accumulate);
  }
  for (const Knob& knob : Techniques()) {
    if (knob.IsOpen(run)) knob.Use(run, false);
  }
  return run;
}

}  // namespace

memory::MeshTraffic TrafficOf(const StepDraft& step) {
  const Mesh& mesh = step.options().mesh;
  memory::MeshTraffic traffic;
  for (const MeshAxis& axis : AllAxes(mesh)) traffic.push_back({.axis = axis});
  for (const memory::StepProgram& part : step.programs()) {
    for (const graph::Node& node : part.program->nodes()) {
      if (!ops::IsCollective(*node.op)) continue;
      const memory::AxisTraffic call = memory::TrafficOf(part.program->CallOf(node).get(), mesh);
      const auto times = static_cast<double>(part.times);
      for (memory::AxisTraffic& of_axis : traffic) {
        if (of_axis.axis != call.axis) continue;
        of_axis.all_reduce += times * call.all_reduce;
        of_axis.reduce_scatter += times * call.reduce_scatter;
        of_axis.all_gather += times * call.all_gather;
      }
    }
  }
  return traffic;
}

void ChooseChannels(config::RunConfig& config) {
  if (config.parallel.nccl_max_ctas) return;
  config.parallel.nccl_max_ctas = 0;
  const int64_t ranks = MeshFrom(config).size();
  if (ranks == 1 || ranks > memory::kGpusOfHost || DeviceFrom(config) == runtime::DeviceKind::kCpu)
    return;
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  const config::RunConfig run = Closed(config, *model);
  const StepDraft step(run, *model);
  const memory::CostModel rates = BuiltInCost(run);
  double seconds = 0;
  for (const memory::StepProgram& part : step.programs()) {
    if (part.times == 0) continue;
    seconds += static_cast<double>(part.times) * rates.ProgramSeconds(*part.program);
  }
  config.parallel.nccl_max_ctas = memory::FewestChannels(TrafficOf(step), seconds);
}

}  // namespace plimsoll::trainer
