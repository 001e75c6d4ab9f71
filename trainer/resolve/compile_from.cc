#include "trainer/resolve/compile_from.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/amounts.h"
#include "base/glob.h"
#include "data/prefetch.h"
#include "graph/block.h"
#include "ops/stored_attention/stored_attention.h"
#include "optim/layer_rates.h"
#include "trainer/config/schema.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/linear_layers.h"
#include "trainer/resolve/muon_matrices.h"
#include "trainer/resolve/run_device.h"
#include "trainer/resolve/source_from.h"
#include "trainer/resolve/stages_from.h"
#include "trainer/step/adapter.h"
#include "trainer/step/passes.h"

namespace plimsoll::trainer {
namespace {

// config/ repeats these enumerations so that it need not depend on the parts that it configures.
template <auto kRepeated, auto kOwn>
constexpr bool kIsRepeated = static_cast<int>(kRepeated) == static_cast<int>(kOwn);
static_assert(kIsRepeated<config::OptimizerName::kMuon, optim::UpdateOptions::Algorithm::kMuon>);
static_assert(kIsRepeated<config::ClipBy::kLastStep, optim::UpdateOptions::ClipBy::kLastStep>);
static_assert(kIsRepeated<config::StateDtype::kInt8, optim::StateDType::kInt8>);
static_assert(
    kIsRepeated<config::CheckpointPolicy::kSelective, checkpointing::Options::Policy::kSelective>);

// Throws a UserError if micro-batches would cut a group of samples that affect one another, or if
// parallel.sync_norm finds no statistics that ranks could share.
void CheckCoupling(const config::RunConfig& config, const models::Model& model) {
  const models::SampleCoupling coupling = model.sample_coupling();
  const int64_t group = coupling.smallest_micro_batch(), micro_batch = config.train.micro_batch;
  if (micro_batch % group != 0) {
    throw config.Error("train.micro_batch",
                       fmt::format("{} {} no whole groups of the {} that act on one "
                                   "another in this model; use a multiple of {}",
                                   Counted(micro_batch, "sample"),
                                   micro_batch == 1 ? "makes" : "make", group, group));
  }
  if (!coupling.whole_micro_batch() && config.parallel.sync_norm) {
    throw config.Error("parallel.sync_norm",
                       "this model has no statistics of whole micro-batches, which ranks could "
                       "share; leave it out");
  }
}

// Throws a UserError if the data requires separate documents in a row, and the model cannot keep
// them separate.
void RequireDocumentsApart(const config::RunConfig& config, const models::Model& model) {
  const std::string key = config.data.KeyOfDocumentsApart();
  if (key.empty()) return;
  const bool packs = key == "data.packing";
  const std::string value = config::FindKey(key)->Text(config);
  const char* const joined = packs ? "data.packing: concatenate" : "data.documents: joined";
  if (!model.inputs().contains("positions")) {
    throw config.Error(key, fmt::format("{} keeps documents apart, which models of family {} "
                                        "cannot; use {}",
                                        value, model.family(), joined));
  }
}

// Throws a UserError for a pattern that matches no parameter: it is a mistake.
void RequireMatch(const config::RunConfig& config, const char* key, const std::string& pattern,
                  const std::vector<models::ParameterInfo>& parameters) {
  if (std::ranges::any_of(parameters, [&](const auto& parameter) {
        return MatchesGlob(pattern, parameter.name);
      })) {
    return;
  }
  throw config.Error(key, "no parameter matches '" + pattern + "'; the first one is called '" +
                              parameters.front().name + "'");
}

// Throws a UserError if a pattern of layers that keep 16 bits matches no layer.
void CheckFp8Skip(const config::RunConfig& config, const models::Model& model) {
  if (config.amp.fp8_recipe == config::Fp8Recipe::kNone || config.amp.fp8_skip.empty()) return;
  const auto layers = LinearLayersInBlocks(model, config.model.sequence());
  for (const std::string& pattern : config.amp.fp8_skip) {
    const bool known = std::ranges::any_of(layers, [&](const auto& block) {
      return std::ranges::any_of(
          block.second, [&](const std::string& weight) { return MatchesGlob(pattern, weight); });
    });
    if (known) continue;
    RequireMatch(config, "amp.fp8.skip", pattern, model.parameters());
    const std::string there = layers.empty() ? "this model has none"
                                             : fmt::format("{} has {}", layers.begin()->first,
                                                           fmt::join(layers.begin()->second, ", "));
    throw config.Error(
        "amp.fp8.skip",
        fmt::format("'{}' matches no weight of a linear layer in a block, which alone may compute "
                    "in 8 bits; {}",
                    pattern, there));
  }
}

bool HasAnyAttention(const graph::Program& program) {
  return std::ranges::any_of(program.nodes(),
                             [](const graph::Node& node) { return node.op->name == "attention"; });
}

// Throws a UserError if the attention scores cannot be stored as model.attention asks for.
void CheckStoredAttention(const config::RunConfig& config, const models::Model& model) {
  if (config.model.attention != config::AttentionKind::kStored) return;
  if (config.parallel.tensor_ranks() > 1) {
    throw config.Error("model.attention",
                       fmt::format("{} tensor ranks cannot share stored scores; use blockwise, or "
                                   "parallel.tensor: 1",
                                   config.parallel.tensor_ranks()));
  }
  const std::vector<graph::Program> programs = LossPrograms(model, config.model.sequence());
  if (std::ranges::any_of(programs, ops::HasAttention)) return;
  if (std::ranges::any_of(programs, HasAnyAttention)) {
    throw config.Error("model.attention",
                       "stored scores know neither documents apart (data.packing) nor a sliding "
                       "window; use blockwise");
  }
  throw config.Error("model.attention",
                     fmt::format("a {} model has no attention whose scores could be stored; "
                                 "leave it out",
                                 model.family()));
}

// Refuses, by a rough estimate, a run whose sums of bytes would overflow the 64 bits of plans.
void CheckSize(const config::RunConfig& config, const models::Model& model) {
  // Estimates that include gradients and workspaces.
  constexpr double kBytesPerParameter = 32, kBytesPerElement = 16;
  double elements = 0;  // elements of one sequence's activations
  for (const graph::Program& program : LossPrograms(model, config.model.sequence())) {
    for (const graph::Tensor& tensor : program.tensors()) {
      if (tensor.persistent) continue;
      elements += static_cast<double>(tensor.type.shape.elements());
    }
  }
  const double bytes = kBytesPerElement * static_cast<double>(config.train.micro_batch) * elements +
                       kBytesPerParameter * static_cast<double>(model.parameter_count());
  if (bytes < 0x1p60) return;
  throw config.Error("train.micro_batch",
                     "a step of this model and batch would need over 1 EiB; "
                     "make the batch, model.sequence or the model smaller");
}

// The factors of the learning rate that optimizer.layer_decay asks for.
std::map<std::string, double> LrFactorsFrom(const config::RunConfig& config,
                                            const models::Model& model,
                                            const adapters::Lora& lora) {
  std::vector<std::string> names;
  for (const models::ParameterInfo& parameter :
       lora.enabled() ? adapters::TrainedParameters(lora) : model.parameters()) {
    names.push_back(parameter.name);
  }
  std::map<std::string, double> factors = optim::LayerRates(names, config.optimizer.layer_decay);
  if (!factors.empty()) return factors;
  throw config.Error("optimizer.layer_decay",
                     "this model has no numbered blocks, by which learning rates could differ; "
                     "leave it out");
}

// Throws a UserError for a name that no objective has.
void CheckObjectives(const config::RunConfig& config, const models::Model& model) {
  std::vector<std::string> names;
  for (const models::Objective& objective : model.objectives()) names.push_back(objective.name);
  for (const auto& [name, objective] : config.objectives) {
    if (std::ranges::find(names, name) != names.end()) continue;
    const std::string key = fmt::format("{}.{}", config::kObjectives, name);
    throw UserError(fmt::format(
        "{}: {}: {}", config.Origin(key + "." + objective.own.begin()->first), key,
        names.size() == 1
            ? fmt::format("models of family {} have one loss; say it in optimizer and "
                          "schedule",
                          model.family())
            : fmt::format("the model has no such objective, only {}", fmt::join(names, ", "))));
  }
}

// The blocks that memory.host_blocks selects. They are evenly spaced, because the tensors of each
// are fetched while the blocks before it compute.
std::vector<std::string> HostBlocksFrom(const config::RunConfig& config,
                                        const models::Model& model) {
  const std::vector<std::string> blocks = BlocksOf(model);
  const auto count = static_cast<size_t>(*config.memory.host_blocks);
  if (count > blocks.size()) {
    throw config.Error("memory.host_blocks",
                       fmt::format("{} is more than the {} of the model; give fewer, or "
                                   "leave it out, which sends all blocks to the host and what is "
                                   "outside of them",
                                   count, Counted(blocks.size(), "block")));
  }
  std::vector<std::string> chosen;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if ((i + 1) * count / blocks.size() > i * count / blocks.size()) chosen.push_back(blocks[i]);
  }
  return chosen;
}

optim::HostParametersOptions OnHostFrom(const config::RunConfig& config,
                                        const models::Model& model) {
  optim::HostParametersOptions options = {
      .weights = config.memory.weights == config::PlaceOrAuto::kHost,
      .gradients = config.memory.gradients == config::PlaceOrAuto::kHost,
      .state = config.optimizer.place == config::PlaceOrAuto::kHost};
  if (options.any() && config.memory.host_blocks) options.blocks = HostBlocksFrom(config, model);
  return options;
}

optim::UpdateOptions UpdateFrom(const config::RunConfig& config, const models::Model& model) {
  const config::OptimizerConfig& o = config.optimizer;
  optim::UpdateOptions update;
  update.algorithm = static_cast<optim::UpdateOptions::Algorithm>(o.name);
  update.beta1 = o.betas[0];
  update.beta2 = o.betas[1];
  update.eps = o.eps;
  update.momentum = o.momentum;
  update.nesterov = o.nesterov;
  if (o.name == config::OptimizerName::kMuon) update.muon = MuonFrom(config, model);
  update.weight_decay = o.weight_decay;
  const adapters::Lora lora = LoraFrom(config, model);
  for (const config::WeightDecayGroup& group : o.weight_decay_groups) {
    RequireMatch(config, "optimizer.weight_decay_groups", group.pattern,
                 lora.enabled() ? adapters::TrainedParameters(lora) : model.parameters());
    update.groups.push_back({group.pattern, group.weight_decay});
  }
  if (o.layer_decay < 1) update.lr_factors = LrFactorsFrom(config, model, lora);
  update.clip_grad_norm = o.clip_grad_norm;
  update.clip_by = static_cast<optim::UpdateOptions::ClipBy>(o.clip_by);
  if (o.ema > 0) update.average = ops::WeightAverageOptions{o.ema, o.ema_warmup};
  update.state_dtype = static_cast<optim::StateDType>(o.state_dtype);
  const config::AmpConfig& a = config.amp;
  update.master_weights = a.master_weights;
  const bool dynamic =
      a.loss_scale == config::LossScale::kDynamic ||
      (a.loss_scale == config::LossScale::kAuto && a.dtype == config::Dtype::kFp16);
  if (dynamic || a.loss_scale == config::LossScale::kStatic) {
    update.loss_scale = ops::LossScaleOptions{.dynamic = dynamic,
                                              .growth_factor = a.growth_factor,
                                              .backoff_factor = a.backoff_factor,
                                              .growth_interval = a.growth_interval,
                                              .min_scale = a.min_scale};
  }
  update.skips = config.divergence.action == config::DivergenceAction::kSkip;
  return update;
}

// Includes the keys' places, for messages about patterns that match nothing.
checkpointing::Options CheckpointingFrom(const config::RunConfig& config) {
  const config::CheckpointingConfig& c = config.checkpointing;
  checkpointing::Options options;
  if (c.policy != config::CheckpointPolicy::kAuto) {  // the solver decides `auto`
    options.policy = static_cast<checkpointing::Options::Policy>(c.policy);
  }
  options.every = c.every;
  options.reshard = config.parallel.reshard_after_forward;
  auto patterns = [&](const std::string& key, const std::vector<std::string>& list) {
    return checkpointing::Patterns{list, config.Origin(key) + ": " + key, !config.IsSet(key)};
  };
  options.recompute = patterns("checkpointing.recompute", c.recompute);
  options.save = patterns("checkpointing.save", c.save);
  options.offload = patterns("checkpointing.offload", c.offload);
  return options;
}

// The bytes of a gradient bucket. A collective takes multiprocessors from the computation that it
// overlaps with, and gets all that it needs only after the running kernel has ended. So few long
// collectives cost less than many short ones. Two limits: no computation hides the last bucket, so
// it must be a small part of all gradients; and the unsharded gradients of several buckets are
// alive at once.
int64_t BucketBytes(const config::RunConfig& config, int64_t trained) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  if (config.parallel.bucket_cap_mb) return *config.parallel.bucket_cap_mb * kMiB;
  const int64_t gradients = 4 * trained / config.parallel.tensor_ranks();
  return std::clamp(gradients / 32, parallel::DataParallelOptions().bucket_bytes, 200 * kMiB);
}

// Sets debug.stop_after and debug.without.
void ChoosePasses(const config::RunConfig& config, CompileOptions& options) {
  options.dump_directory = config.debug.dump_programs;
  options.stop_after = config.debug.stop_after;
  if (!options.stop_after.empty()) {
    const std::string why = WhyNotStopAfter(options.stop_after);
    if (!why.empty()) throw config.Error("debug.stop_after", why);
  }
  for (const std::string& pass : config.debug.without) {
    const std::string why = WhyNotWithout(pass);
    if (!why.empty()) throw config.Error("debug.without", why);
    options.without.insert(pass);
  }
}

// Sets the number of places in which threads prepare the batches of a GPU: enough for one run of a
// program, for the next run, and to keep the threads busy. With memory.allocator: caching, as in
// other frameworks, there are no places.
void PlaceInputs(const config::RunConfig& config, CompileOptions& options) {
  const bool planned = config.memory.allocator == config::Allocator::kPlanned;
  const int64_t workers = DataWorkersFrom(config);
  const bool stages = !options.stages.empty();  // a stage's slots hold batches until they are read
  if (options.device == runtime::DeviceKind::kCpu || !planned || workers == 0 || stages) return;
  options.input_places =
      data::PrefetchPlaces(workers, options.micro_batch, 2 * options.micro_steps_per_program);
  if (options.evaluate) {
    options.evaluation_places = data::PrefetchPlaces(workers, options.micro_batch);
  }
}

}  // namespace

std::string WhyNoSequence(const config::RunConfig& config, const models::Model& model) {
  if (!config.parallel.shares_tokens()) return "";
  const auto* const drop_path = std::get_if<double>(&config.model.settings.Get("drop_path"));
  if (drop_path != nullptr && *drop_path > 0) {
    return "tensor ranks have a part of each sample's tokens then, but model.drop_path drops whole "
           "samples";
  }
  if (!model.shares_tokens()) {
    return fmt::format("tensor ranks cannot share the tokens of a {} model", model.family());
  }
  const int64_t ranks = config.parallel.tensor_ranks(), sequence = config.model.sequence();
  const int64_t tokens = config.train.micro_batch * sequence;
  if (tokens % ranks != 0) {
    return fmt::format(
        "{} tensor ranks cannot share the tokens of a micro-step equally: train.micro_batch {} × "
        "model.sequence {} = {}",
        ranks, config.train.micro_batch, sequence, tokens);
  }
  const bool in_parts = config.parallel.data_ranks() > 1 && config.parallel.zero.value_or(0) >= 2;
  if (config.lora.asked() && in_parts && config.train.accumulate > 1) {
    return "tensor ranks have partial gradients of adapters then, which data ranks cannot carry in "
           "parts from micro-step to micro-step, as parallel.zero asks from 2 on";
  }
  return "";
}

amp::AmpOptions AmpFrom(const config::RunConfig& config) {
  amp::AmpOptions amp;
  if (config.amp.dtype == config::Dtype::kBf16) amp.dtype = graph::DType::kBFloat16;
  if (config.amp.dtype == config::Dtype::kFp16) amp.dtype = graph::DType::kFloat16;
  amp.tf32 = config.amp.dtype == config::Dtype::kTf32;
  if (amp.tf32 && DeviceFrom(config) == runtime::DeviceKind::kCpu) {
    throw config.Error("amp.dtype",
                       "tf32 needs a GPU, whose matrix units it is a format of; use fp32 or bf16, "
                       "or device: cuda");
  }
  amp.low_gradients = config.amp.grad_dtype == config::GradDtype::kBf16;
  amp.low_ops = config.amp.low_ops;
  amp.fp32_ops = config.amp.fp32_ops;
  amp.fp8.enabled = config.amp.fp8_recipe != config::Fp8Recipe::kNone;
  if (config.amp.fp8_recipe == config::Fp8Recipe::kDelayed) amp.fp8.window = config.amp.fp8_window;
  amp.fp8.margin = config.amp.fp8_margin;
  amp.fp8.gradients = config.amp.fp8_gradients == config::Fp8Gradients::kE4m3
                          ? graph::DType::kFloat8E4M3
                          : graph::DType::kFloat8E5M2;
  amp.fp8.skip = config.amp.fp8_skip;
  amp.fp8.skip_ends = config.amp.fp8_skip_ends;
  amp.fp8.pre_activations = config.amp.fp8_pre_activations;
  amp.fp8.counts = config.amp.fp8_counts;
  if (const auto problem = amp::FindProblem(amp)) {
    throw config.Error("amp." + problem->field, problem->reason);
  }
  return amp;
}

CompileOptions CompileFrom(const config::RunConfig& config, const models::Model& model) {
  CheckSize(config, model);
  CheckCoupling(config, model);
  CheckStoredAttention(config, model);
  CheckFp8Skip(config, model);
  RequireFp8Units(config);
  RequireDocumentsApart(config, model);
  if (const std::string why = WhyNoSequence(config, model); !why.empty()) {
    throw config.Error("parallel.sequence", why + "; use parallel.sequence: false");
  }
  CompileOptions options;
  options.micro_batch = config.train.micro_batch;
  options.sequence = config.model.sequence();
  options.accumulate = config.train.accumulate;
  options.blocks_first =
      config.train.blocks_first == config::OnOrAuto::kOn && options.accumulate > 1;
  if (options.blocks_first) options.micro_steps_per_program = options.accumulate;
  options.mesh = MeshFrom(config);
  options.stages = StagesFrom(config, model);
  options.zero = config.parallel.zero.value_or(0);
  options.sequence_parallel = config.parallel.sequence == config::OnOrAuto::kOn;
  options.sync_norm = config.parallel.sync_norm;
  // Reference log-probabilities of preferences are computed by an evaluation.
  options.evaluate = config.train.eval_every > 0 || config.preference.asked();
  options.generate_rows = config.train.sample_every > 0 ? config.sample.count : 0;
  // Each token has at least one byte, and an empty prompt is one token.
  options.generate_context =
      std::min(config.model.sequence(),
               static_cast<int64_t>(config.sample.prompt.size()) + 1 + config.sample.tokens);
  options.stored_attention = config.model.attention == config::AttentionKind::kStored;
  options.amp = AmpFrom(config);
  options.fuse_gelu_gradient = config.amp.fuse_gelu;
  options.update = UpdateFrom(config, model);
  CheckObjectives(config, model);
  for (const auto& [name, objective] : config.objectives) {
    options.updates[name] = UpdateFrom(config.ForObjective(name), model);
  }
  options.lora = LoraFrom(config, model);
  options.frozen = options.lora.enabled() ? adapters::FrozenParameters(model, options.lora)
                                          : FrozenFrom(config, model);
  RequireTrainedStages(config, model, options);
  options.snapshot_copy = config.save.async;
  options.data_parallel.bucket_bytes = BucketBytes(config, CountParameters(model, options).trained);
  options.on_host = OnHostFrom(config, model);
  if (config.optimizer.in_backward == config::OnOrAuto::kOn) options.update_in_backward.emplace();
  options.init_loss_scale = config.amp.init_scale;
  options.checkpointing = CheckpointingFrom(config);
  options.device = DeviceFrom(config);
  options.capability = CapabilityFrom(config);
  PlaceInputs(config, options);
  if (!config.checkpointing.offload.empty()) options.gpu = GpuFrom(config);
  options.threads = ThreadsFrom(config);
  ChoosePasses(config, options);
  return options;
}

std::optional<RefusedKey> RefusedKeyOf(const CompiledStep& compiled) {
  for (const graph::PassReport& report : compiled.passes) {
    const bool anywhere = std::ranges::any_of(compiled.passes, [&](const graph::PassReport& other) {
      return other.pass == report.pass && other.result.changed;
    });
    if (!report.result.refused || anywhere) continue;
    const auto row = std::ranges::find(PassTable(), report.pass, &PassRow::name);
    return RefusedKey{std::string(row->key), report.result.summary};
  }
  return std::nullopt;
}

std::string Text(const RefusedKey& refused) {
  return fmt::format("{}: has no effect: {}", refused.key, refused.why);
}

std::string RefusalWarning(const config::RunConfig& config, const CompiledStep& compiled) {
  const std::optional<RefusedKey> refused = RefusedKeyOf(compiled);
  if (!refused) return "";
  return fmt::format("{}: {}", config.Origin(refused->key), Text(*refused));
}

}  // namespace plimsoll::trainer
