#include "trainer/settle/channels.h"

#include <algorithm>
#include <cstddef>

#include "ops/axis.h"
#include "ops/collective.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/run_costs.h"
#include "trainer/settle/run_device.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kGpusOfHost = 8;

void Count(const graph::Program& program, const graph::Node& node, double times,
           memory::MeshTraffic& traffic) {
  if (!ops::IsCollective(*node.op)) return;
  const auto axis = std::ranges::find(traffic, ops::AxisOf(node.attributes),
                                      [](const auto& of) { return of.axis.name; });
  if (axis == traffic.end()) return;
  const bool gathers = node.op->name == "all_gather_start";
  const graph::TensorId whole = gathers ? node.outputs[0] : node.inputs[0];
  double& sum = gathers                               ? axis->all_gather
                : node.op->name == "all_reduce_start" ? axis->all_reduce
                                                      : axis->reduce_scatter;
  sum += times * static_cast<double>(program.tensor(whole).bytes());
}

// The run with those open choices made that do not affect what is sent.
config::RunConfig Closed(const config::RunConfig& config, const models::Model& model) {
  config::RunConfig run = config;
  if (run.train.micro_batch == 0) {
    run.train.micro_batch = std::max<int64_t>(1, model.coupled_samples());
    run.train.global_batch.reset();
    run.train.global_batch_tokens.reset();
  }
  for (const Knob& knob : Techniques()) {
    if (knob.IsOpen(run)) knob.Use(run, false);
  }
  return run;
}

}  // namespace

memory::MeshTraffic TrafficOf(const StepDraft& step) {
  memory::MeshTraffic traffic;
  for (const MeshAxis& axis : step.options().mesh.axes()) traffic.push_back({.axis = axis});
  for (const memory::StepProgram& part : step.programs()) {
    for (const graph::Node& node : part.program->nodes()) {
      Count(*part.program, node, static_cast<double>(part.times), traffic);
    }
  }
  return traffic;
}

void ChooseChannels(config::RunConfig& config) {
  if (config.parallel.nccl_max_ctas) return;
  config.parallel.nccl_max_ctas = 0;
  const int64_t ranks = MeshFrom(config).size();
  if (ranks == 1 || ranks > kGpusOfHost || DeviceFrom(config) == runtime::DeviceKind::kCpu) return;
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
