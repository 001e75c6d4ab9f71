#include "trainer/step/pass_options.h"

#include <memory>

#include "base/axes.h"
#include "base/glob.h"
#include "graph/objective.h"
#include "memory/device_rates.h"
#include "ops/elementwise/activation_fusion.h"
#include "ops/fusions.h"
#include "parallel/zero_shards.h"

namespace plimsoll::trainer {

using graph::Carry;
using graph::OfObjective;

int64_t ZeroOf(const CompileOptions& options) {
  return options.mesh.ranks(kDataAxis) > 1 ? options.zero : 0;
}

bool DividesWeights(const CompileOptions& options) {
  return ZeroOf(options) == 3 || (ZeroOf(options) > 0 && options.on_host.weights);
}

parallel::TensorParallelOptions TensorParallelFrom(
    const CompileOptions& options, const std::map<std::string, models::SplitParameter>& split) {
  using parallel::ParameterPart;
  parallel::TensorParallelOptions tensor{
      options.mesh.ranks(kTensorAxis), options.sequence_parallel, {}};
  for (const auto& [name, parameter] : split) {
    const bool columns = parameter.split() == models::Sharding::kColumns;
    tensor.parts[name] = {columns ? ParameterPart::kColumns : ParameterPart::kRows,
                          parameter.LocalShape()};
  }
  return tensor;
}

bool HasStages(const CompileOptions& options) { return options.mesh.ranks(kPipelineAxis) > 1; }

bool IsCutIntoParts(const CompileOptions& options, const Purpose& purpose) {
  return HasStages(options) && purpose.kind != ProgramKind::kLogits;
}

int64_t DataRanks(const Making& m) { return m.options.mesh.ranks(kDataAxis); }

graph::AutodiffOptions AutodiffFrom(const Making& m) {
  const std::vector<std::string>& metrics = m.purpose.metrics;
  const std::string& objective = m.purpose.objective.name;
  return {.loss = metrics.front(),
          .metrics = {metrics.begin() + 1, metrics.end()},
          .carry = m.purpose.carry,
          .carries =
              [zero = ZeroOf(m.options), ranks = DataRanks(m)](const graph::Tensor& parameter) {
                return zero < 2 || !parallel::IsDivided(parameter.type.shape, ranks);
              },
          .frozen =
              [frozen = m.options.frozen,
               trained = m.purpose.objective.parameters](const graph::Tensor& parameter) {
                return MatchesAnyGlob(frozen, parameter.name) ||
                       !MatchesAnyGlob(trained, parameter.name);
              },
          .loss_scale =
              m.options.UpdateOf(objective).loss_scale ? OfObjective(objective, "loss_scale") : ""};
}

amp::Fp8Products::Options Fp8From(const Making& m) {
  return {.codes = m.options.amp.fp8,
          .objective = m.purpose.objective.name,
          .carry = m.purpose.carry,
          .update = m.purpose.update,
          .tensor_ranks = m.options.mesh.ranks(kTensorAxis),
          .parts = m.options.accumulate * m.options.mesh.size()};
}

optim::UpdateOptions UpdateFrom(const Making& m) {
  optim::UpdateOptions update = m.options.UpdateOf(m.purpose.objective.name);
  update.history_margin = m.options.amp.fp8.margin;
  update.micro_steps = m.options.accumulate;
  update.ranks = DataRanks(m);
  return update;
}

parallel::GatherCodes::Options GatherCodesFrom(const Making& m) {
  return {.objective = m.purpose.objective.name, .first = m.purpose.carry != Carry::kAccumulate};
}

parallel::DataParallelOptions DataParallelFrom(const Making& m) {
  parallel::DataParallelOptions data_parallel = m.options.data_parallel;
  data_parallel.ranks = DataRanks(m);
  data_parallel.gradients_on_host = m.options.on_host.gradients;
  data_parallel.at_update = HasStages(m.options);
  return data_parallel;
}

parallel::ZeroStateOptions ZeroStateFrom(const Making& m) {
  return {.ranks = DataRanks(m), .carry = ZeroOf(m.options) >= 2 ? m.purpose.carry : Carry::kNone};
}

parallel::CutStageOptions CutStageFrom(const Making& m) {
  return {.blocks = m.options.stages,
          .stage = m.options.mesh.Coordinate(m.options.rank, kPipelineAxis)};
}

parallel::ZeroWeightsOptions ZeroWeightsFrom(const Making& m) {
  return {.ranks = DataRanks(m),
          .bucket_bytes = m.options.data_parallel.bucket_bytes,
          .constant = m.options.frozen};
}

optim::UpdateInBackwardOptions InBackwardFrom(const Making& m, bool joined) {
  optim::UpdateInBackwardOptions options = *m.options.update_in_backward;
  options.carried = joined || m.options.on_host.gradients;
  return options;
}

// If nothing else is copied from the host, offloaded activations are fetched just in time. The
// predicted times come from built-in rates, because a program must not depend on measurements.
checkpointing::OffloadOptions OffloadFrom(const CompileOptions& options) {
  if (options.device != runtime::DeviceKind::kCuda || options.on_host.any()) return {};
  const auto rates = std::make_shared<memory::DeviceRates>(
      memory::DeviceRates::Gpu(options.gpu, options.capability));
  return {.node_seconds = [rates](const graph::OpCall& call) { return rates->Seconds(call); },
          .copy_seconds =
              [rates](int64_t bytes) {
                return rates->CopySeconds(static_cast<double>(bytes), graph::Place::kDevice);
              }};
}

std::vector<graph::Fusion> Fusions(const CompileOptions& options) {
  std::vector<graph::Fusion> fusions = {
      {"loss with its backward", &ops::FuseLossBackward},
      {"norms with their statistics' gradients", &ops::FuseBatchNormGradients},
      {"norms with their residuals", &ops::FuseBatchNormResiduals},
      {"norms with their residuals' gradients", &ops::FuseBatchNormResidualGradients}};
  if (options.device == runtime::DeviceKind::kCuda && options.fuse_gelu_gradient) {
    fusions.push_back({"GELU's gradient with its product", &ops::FuseGeluGradient});
  }
  if (options.device == runtime::DeviceKind::kCuda) {
    fusions.push_back({"activations with their codes", &ops::FuseQuantizedActivations});
    fusions.push_back({"activations of codes", &ops::FuseDequantized});
  }
  return fusions;
}

std::vector<graph::Fusion> LateFusions() {
  return {{"activations with their gradients", &ops::FuseRecomputedActivations},
          {"bias gradients", &ops::FuseBiasGradients},
          {"sum with its norm", &ops::FuseAddNorm},
          {"norms with the dropout next to them", &ops::FuseNormDropout},
          {"norms with their backward ops", &ops::FuseRecomputedNorms},
          {"norms with their codes", &ops::FuseQuantizedNorms},
          {"what is quantized with its largest magnitude", &ops::FuseLargest}};
}

}  // namespace plimsoll::trainer
