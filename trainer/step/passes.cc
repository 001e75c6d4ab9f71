#include "trainer/step/passes.h"

#include <memory>
#include <set>
#include <utility>

#include "adapters/lora_pass.h"
#include "amp/fp8.h"
#include "amp/low_gradients.h"
#include "amp/mixed_precision.h"
#include "base/axes.h"
#include "base/glob.h"
#include "checkpointing/offload.h"
#include "checkpointing/recompute.h"
#include "checkpointing/retention_policy.h"
#include "graph/autodiff.h"
#include "graph/fuse.h"
#include "graph/micro_steps.h"
#include "graph/objective.h"
#include "graph/simplify.h"
#include "graph/step_passes.h"
#include "inference/kv_cache.h"
#include "memory/device_rates.h"
#include "ops/convolution/pad_channels.h"
#include "ops/elementwise/activation_fusion.h"
#include "ops/fusions.h"
#include "ops/stored_attention/stored_attention.h"
#include "optim/host_parameters.h"
#include "parallel/rng_slots.h"
#include "parallel/sync_norm.h"
#include "parallel/tensor_gradients.h"
#include "parallel/zero_parameters.h"
#include "parallel/zero_shards.h"
#include "parallel/zero_state.h"
#include "parallel/zero_weights.h"
#include "runtime/workspaces.h"
#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {
namespace {

using graph::Carry;
using graph::OfObjective;
using graph::PassPipeline;
using graph::Program;

// Kernels' scratch memory becomes tensors of the program.
class Workspaces : public graph::Pass {
 public:
  Workspaces(runtime::DeviceKind device, int threads) : device_(device), threads_(threads) {}
  std::string_view name() const override { return "workspaces"; }
  graph::PassResult Run(Program& program) override {
    return {runtime::AddWorkspaces(program, threads_, device_), "scratch of kernels added"};
  }

 private:
  runtime::DeviceKind device_;
  int threads_;
};

std::vector<graph::Fusion> Fusions(const CompileOptions& options) {
  std::vector<graph::Fusion> fusions = {
      {"loss with its backward", &ops::FuseLossBackward},
      {"norms with their statistics' gradients", &ops::FuseBatchNormGradients},
      {"norms with their residuals", &ops::FuseBatchNormResiduals},
      {"norms with their residuals' gradients", &ops::FuseBatchNormResidualGradients}};
  if (options.device == runtime::DeviceKind::kCuda && options.fuse_gelu_gradient) {
    fusions.push_back({"GELU's gradient with its product", &ops::FuseGeluGradient});
  }
  return fusions;
}

parallel::ParameterPart::Split SplitOf(models::Sharding::Split split) {
  switch (split) {
    case models::Sharding::kRows:
      return parallel::ParameterPart::kRows;
    case models::Sharding::kColumns:
      return parallel::ParameterPart::kColumns;
    case models::Sharding::kVocabulary:
      break;
  }
  return parallel::ParameterPart::kVocabulary;
}

// `joined`: the program holds all micro-steps of an update, and there are several.
void AddMovingPasses(const CompileOptions& options, bool trains, bool joined,
                     PassPipeline& passes) {
  if (trains && options.update_in_backward) {
    optim::UpdateInBackwardOptions in_backward = *options.update_in_backward;
    in_backward.carried = joined || options.on_host.gradients;
    passes.Add<optim::UpdateInBackward>(in_backward);
  }
  if (joined) passes.Add<graph::TemporaryGradients>();
  if (!options.on_host.any()) return;
  if (trains) passes.Add<optim::SliceUpdates>();
  passes.Add<optim::HostParameters>(options.on_host);
}

// Where nothing else comes to the device, activations come back just in time. By built-in rates: a
// program must not depend on what was measured.
checkpointing::OffloadOptions OffloadFrom(const CompileOptions& options) {
  if (options.device != runtime::DeviceKind::kCuda || options.on_host.any()) return {};
  const auto rates = std::make_shared<memory::DeviceRates>(memory::DeviceRates::Gpu(options.gpu));
  return {.node_seconds = [rates](const graph::OpCall& call) { return rates->Seconds(call); },
          .copy_seconds =
              [rates](int64_t bytes) {
                return rates->CopySeconds(static_cast<double>(bytes), graph::Place::kDevice);
              }};
}

}  // namespace

int64_t ZeroOf(const CompileOptions& options) {
  return options.mesh.ranks(kDataAxis) > 1 ? options.zero : 0;
}

bool DividesWeights(const CompileOptions& options) {
  return ZeroOf(options) == 3 || (ZeroOf(options) > 0 && options.on_host.weights);
}

parallel::TensorParallelOptions TensorParallelFrom(
    const CompileOptions& options, const std::map<std::string, models::SplitParameter>& split) {
  parallel::TensorParallelOptions tensor{
      options.mesh.ranks(kTensorAxis), options.sequence_parallel, {}};
  for (const auto& [name, parameter] : split) {
    tensor.parts[name] = {SplitOf(parameter.split()), parameter.LocalShape()};
  }
  return tensor;
}

PassPipeline Passes(const CompileOptions& options, const Purpose& purpose,
                    const parallel::TensorParallelOptions& tensor) {
  const int64_t ranks = options.mesh.ranks(kDataAxis), zero = ZeroOf(options);
  const bool divides_weights = DividesWeights(options);
  PassPipeline passes(options.dump_directory);
  if (options.lora.enabled()) {
    passes.Add<adapters::LoraPass>(options.lora, purpose.kind == ProgramKind::kTrain);
  }
  if (options.stored_attention && purpose.kind != ProgramKind::kLogits) {
    passes.Add<ops::StoredAttention>();
  }
  passes.Add<amp::MixedPrecision>(options.amp);
  // What is evaluated and generated is what is exported: weights of 16 bits.
  const bool fp8 = options.amp.fp8.enabled && purpose.kind == ProgramKind::kTrain;
  if (fp8) passes.Add<amp::MarkFp8>(options.amp);
  if (options.device == runtime::DeviceKind::kCuda) passes.Add<ops::PadChannels>();
  if (tensor.ranks > 1) passes.Add<parallel::TensorParallel>(tensor);
  if (options.sync_norm && ranks > 1 && purpose.kind == ProgramKind::kTrain) {
    passes.Add<parallel::SyncNorm>(ranks);
  }
  if (purpose.cached) passes.Add<inference::KvCache>(options.generate_context);
  optim::UpdateOptions update = options.UpdateOf(purpose.objective.name);
  std::vector<std::string> sums = purpose.metrics, firsts;
  for (const models::StateUpdate& changed : purpose.states) {
    using models::StateInfo;
    const StateInfo& state = changed.state;
    const bool averaged = state.on_ranks == StateInfo::kAveraged;
    const int64_t micro_steps = state.over_micro_steps == StateInfo::kMean ? options.accumulate : 1;
    // A counter has no average, and a value of each rank is in no checkpoint.
    const bool has_average = averaged || state.on_ranks == StateInfo::kOfFirst;
    update.states[state.name] = {(averaged ? ranks : 1) * micro_steps, has_average};
    if (averaged) sums.push_back(graph::PendingName(state.name));
    if (state.on_ranks == StateInfo::kOfFirst) firsts.push_back(graph::PendingName(state.name));
  }
  if (purpose.kind == ProgramKind::kTrain) {
    passes.Add<graph::Autodiff>(graph::AutodiffOptions{
        .loss = purpose.metrics.front(),
        .metrics = {purpose.metrics.begin() + 1, purpose.metrics.end()},
        .carry = purpose.carry,
        .carries =
            [=](const graph::Tensor& parameter) {
              return zero < 2 || !parallel::IsDivided(parameter.type.shape, ranks);
            },
        .frozen =
            [frozen = options.frozen,
             trained = purpose.objective.parameters](const graph::Tensor& parameter) {
              return MatchesAnyGlob(frozen, parameter.name) ||
                     !MatchesAnyGlob(trained, parameter.name);
            },
        .loss_scale = update.loss_scale ? OfObjective(purpose.objective.name, "loss_scale") : ""});
    if (options.amp.low_gradients) passes.Add<amp::LowGradients>();
    if (fp8) passes.Add<amp::Fp8Products>();
    if (purpose.update) passes.Add<optim::Update>(update);
    if (purpose.update && tensor.ranks > 1) passes.Add<parallel::TensorGradients>(tensor);
    if (zero > 0) {
      passes.Add<parallel::ZeroState>(parallel::ZeroStateOptions{
          .ranks = ranks, .carry = zero >= 2 ? purpose.carry : Carry::kNone});
    }
    if (zero > 0 && !divides_weights && purpose.carry != Carry::kAccumulate) {
      passes.Add<parallel::ZeroWeights>(
          parallel::ZeroWeightsOptions{.ranks = ranks,
                                       .bucket_bytes = options.data_parallel.bucket_bytes,
                                       .constant = options.frozen});
    }
  }
  if (divides_weights) passes.Add<parallel::ZeroParameters>(ranks);
  if (ranks > 1 && purpose.kind != ProgramKind::kLogits) {
    parallel::DataParallelOptions data_parallel = options.data_parallel;
    data_parallel.sums = sums;
    data_parallel.firsts = firsts;
    data_parallel.ranks = ranks;
    data_parallel.gradients_on_host = options.on_host.gradients;
    passes.Add<parallel::DataParallel>(data_parallel);
  }
  if (options.on_host.any()) passes.Add<optim::PlaceOnHost>(options.on_host);
  passes.Add<graph::Simplify>();
  passes.Add<graph::Fuse>(Fusions(options));
  if (options.draft) return passes;
  const bool trains = purpose.kind == ProgramKind::kTrain;
  if (trains) {
    passes.Add<checkpointing::TagActivations>(options.CheckpointingOf(purpose.objective.name));
  }
  AddPassesAfterTags(options, trains ? purpose.metrics.front() : "", passes);
  return passes;
}

PassPipeline PassesOfJoined(const CompileOptions& options,
                            const std::vector<models::Objective>& objectives,
                            std::vector<const Program*> next) {
  const bool all = static_cast<int64_t>(next.size()) + 1 == options.accumulate;
  PassPipeline passes(options.dump_directory);
  passes.Add<graph::AppendMicroSteps>(
      std::move(next), [shared = UpdateInputs(objectives)](const graph::Tensor& tensor) {
        return tensor.role == graph::Role::kInput && !shared.contains(tensor.name);
      });
  if (all && options.blocks_first) passes.Add<graph::BlocksFirst>();
  if (all && options.blocks_first && DividesWeights(options)) passes.Add<parallel::JoinGathers>();
  AddMovingPasses(options, /*trains=*/all, /*joined=*/all, passes);
  passes.Add<Workspaces>(options.device, options.threads);  // of what moving has added
  return passes;
}

bool JoinsUpdate(const CompileOptions& options, const models::Objective& before,
                 const models::Objective& objective) {
  const bool same_data =
      !objective.data.empty() && (objective.data == before.name || objective.data == before.data);
  return options.join_updates && options.accumulate == 1 && same_data;
}

PassPipeline PassesOfUpdates(const CompileOptions& options, std::vector<const Program*> next) {
  PassPipeline passes(options.dump_directory);
  std::set<std::string, std::less<>> drawn;
  for (const parallel::RngSlot& slot : parallel::RngSlots()) drawn.emplace(slot.name);
  passes.Add<graph::AppendMicroSteps>(std::move(next), [drawn](const graph::Tensor& tensor) {
    return drawn.contains(tensor.name);
  });
  passes.Add<graph::ShareForward>();
  passes.Add<Workspaces>(options.device, options.threads);  // of what now writes more
  return passes;
}

void AddPassesAfterTags(const CompileOptions& options, const std::string& loss,
                        PassPipeline& passes) {
  const bool trains = !loss.empty();
  if (trains) passes.Add<checkpointing::Recompute>();
  passes.Add<graph::Fuse>(std::vector<graph::Fusion>{
      {"activations with their gradients", &ops::FuseRecomputedActivations},
      {"bias gradients", &ops::FuseBiasGradients},
      {"sum with its norm", &ops::FuseAddNorm},
      {"norms with the dropout beside them", &ops::FuseNormDropout},
      {"norms with their backward ops", &ops::FuseRecomputedNorms},
      {"what is quantized with its largest magnitude", &ops::FuseLargest}});
  if (DividesWeights(options)) passes.Add<parallel::PrefetchParameters>();
  const bool whole = options.micro_steps_per_program == 1;
  if (!trains || whole) AddMovingPasses(options, trains, /*joined=*/false, passes);
  if (trains) passes.Add<checkpointing::Offload>(OffloadFrom(options));
  if (trains && whole) passes.Add<graph::LossByLoss>(loss);
  passes.Add<Workspaces>(options.device, options.threads);
}

}  // namespace plimsoll::trainer
