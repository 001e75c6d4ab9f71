// A small model with random tokens in a session, for tests of whole steps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "base/axes.h"
#include "models/model.h"
#include "runtime/cuda_device.h"
#include "runtime/mesh_ranks.h"
#include "tests/models/published.h"
#include "trainer/step/initialize.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

inline models::ModelSpec TinyGpt2() { return models::Gpt2Spec(2, 32, 2, 96, 16); }

inline models::ModelSpec TinyLlama() {
  return models::LlamaSpec({2, 32, 2, 1, 16, 80, 96, 16, false});
}

struct TinyRun {
  models::ModelSpec spec = TinyGpt2();
  int64_t micro_batch = 4;
  int64_t sequence = 16;
  int64_t accumulate = 1;
  int64_t micro_steps_per_program = 1;
  bool blocks_first = false;
  int threads = 2;
  int steps = 5;
  double lr = 1e-3;
  double ignored = 0;                     // share of targets that carry no loss
  bool repeat = false;                    // every step reads the first step's tokens
  std::map<int, float> loss_limits = {};  // of some steps, with an update that can skip
  optim::UpdateOptions update = {};
  std::vector<std::string> frozen = {};
  std::vector<std::string> lora = {};  // targets of adapters of rank 3; empty: none
  double lora_dropout = 0;
  bool stored_attention = false;
  amp::AmpOptions amp = {};
  bool state_on_host = false, weights_on_host = false, gradients_on_host = false;  // of any size
  // The blocks that have them there: HostParametersOptions::blocks.
  std::vector<std::string> host_blocks = {};
  bool update_in_backward = false;  // of all parameters
  double init_loss_scale = 65536;   // used when the update scales the loss
  checkpointing::Options checkpointing = {};
  runtime::ExecutorOptions executor = {};
  bool cuda = false;  // on a GPU
  bool evaluate = false;
  std::optional<CachingOptions> caching = std::nullopt;
  // Data ranks share the sequences of a step, tensor ranks share the model.
  const runtime::MeshRanks* ranks = nullptr;  // nullptr: alone
  int64_t zero = 0;
  bool sequence_parallel = false;
  int64_t bucket_bytes = parallel::DataParallelOptions().bucket_bytes;
  int copy_after = -1;            // the state is copied after this step, while later steps run
  int64_t copied_at_once = 4096;  // CompileOptions::snapshot_group_bytes
};

using TinyState = std::map<std::string, std::vector<std::byte>>;

struct TinyResult {
  std::vector<double> losses, grad_norms, evaluations;  // of weights and of averages in turn
  StepMetrics last;
  std::vector<std::vector<float>> weights;  // after the last step, as float32
  TinyState state, copied;  // saved by this rank: after the last step, and as copied before
  std::vector<int32_t> rng, tensor_rng;  // slots of the last step; empty: there is none
  int64_t used_bytes = 0, arena_bytes = 0, host_arena_bytes = 0;
  runtime::CachingStats caching, host_caching;
};

inline CompileOptions OptionsOf(const TinyRun& run, const models::Model& model,
                                runtime::DeviceKind device) {
  CompileOptions options;
  options.micro_batch = run.micro_batch;
  options.sequence = run.sequence;
  options.accumulate = run.accumulate;
  options.micro_steps_per_program = run.micro_steps_per_program;
  options.blocks_first = run.blocks_first;
  const MeshPosition position = run.ranks == nullptr ? MeshPosition() : run.ranks->position();
  options.mesh = position.mesh;
  options.rank = position.rank;
  options.zero = run.zero;
  options.data_parallel.bucket_bytes = run.bucket_bytes;
  options.sequence_parallel = run.sequence_parallel;
  options.evaluate = run.evaluate;
  options.update = run.update;
  options.frozen = run.frozen;
  options.snapshot_copy = run.copy_after >= 0;
  options.snapshot_group_bytes = run.copied_at_once;
  if (!run.lora.empty()) {
    options.lora = {.rank = 3,
                    .alpha = 6,
                    .dropout = run.lora_dropout,
                    .layers = adapters::SelectLayers(model, run.lora)};
    options.frozen = adapters::FrozenParameters(model);
  }
  options.stored_attention = run.stored_attention;
  options.amp = run.amp;
  options.on_host = {.weights = run.weights_on_host,
                     .gradients = run.gradients_on_host,
                     .state = run.state_on_host,
                     .blocks = run.host_blocks,
                     .least_bytes = 0};
  if (run.update_in_backward) options.update_in_backward = {.least_bytes = 0};
  options.init_loss_scale = run.init_loss_scale;
  options.checkpointing = run.checkpointing;
  options.device = device;
  options.threads = run.threads;
  return options;
}

// Trains for some steps. The tokens of a step depend only on its number and the sequences per step,
// not on their split into micro-steps and ranks.
inline TinyResult Train(const TinyRun& run) {
  const auto model = models::MakeModel(run.spec);
  ThreadPool pool(run.threads);
  const std::unique_ptr<runtime::Device> device =
      run.cuda ? runtime::MakeCudaDevice(pool) : runtime::MakeCpuDevice(pool);
  const CompileOptions options = OptionsOf(run, *model, device->kind());
  const MeshPosition position = run.ranks == nullptr ? MeshPosition() : run.ranks->position();
  runtime::ExecutorOptions executor = run.executor;
  if (run.ranks != nullptr) executor.communicators = run.ranks->communicators();
  Session session(Compile(*model, options), *device, executor, run.caching,
                  run.ranks == nullptr ? runtime::AxisGroups() : run.ranks->groups());
  session.Initialize(*model, 1);
  // B is not zero, so that A has a gradient already in the first step.
  const std::vector<models::ParameterInfo> adapters = adapters::Parameters(options.lora);
  for (models::ParameterInfo parameter : adapters) {
    parameter.init = {.kind = models::Initializer::kUniform, .bound = 0.1};
    std::vector<float> values(static_cast<size_t>(parameter.shape.elements()));
    InitializeParameter(parameter, 1, values, pool);
    session.WriteParameter(parameter.name, values);
  }

  TinyResult result;
  const size_t size = run.micro_batch * run.sequence;
  const int64_t data_ranks = position.ranks(kDataAxis);
  for (int step = 0; step < run.steps; ++step) {
    std::mt19937 random(run.repeat ? 0 : step);
    std::vector<int32_t> tokens, targets;
    int64_t counted = 0;
    for (size_t i = 0; i < size * run.accumulate * data_ranks; ++i) {
      tokens.push_back(static_cast<int32_t>(random() % run.spec.vocab));
      const bool ignored = random() % 1000 < run.ignored * 1000;
      targets.push_back(ignored ? -100 : static_cast<int32_t>(random() % run.spec.vocab));
      counted += !ignored;
    }
    const auto limit = run.loss_limits.find(step);
    session.BeginStep(
        counted, run.lr, 7,
        limit == run.loss_limits.end() ? std::numeric_limits<float>::infinity() : limit->second);
    for (int64_t micro = 0; micro < run.accumulate; ++micro) {
      const size_t at = size * (micro * data_ranks + position.at(kDataAxis));
      const int64_t in_program = micro % run.micro_steps_per_program;
      const BatchSlots& batch = session.batch(in_program);
      std::copy_n(tokens.begin() + at, size, batch.tokens.begin());
      std::copy_n(targets.begin() + at, size, batch.targets.begin());
      if (in_program + 1 < run.micro_steps_per_program) continue;
      session.Run(step, micro / run.micro_steps_per_program);
    }
    if (step == run.copy_after) session.CopyState();
    result.losses.push_back(session.Metrics().loss);
    result.grad_norms.push_back(session.Metrics().grad_norm);
    if (run.evaluate) {
      // Of the last micro-step's sequences, in the slots of the first.
      const BatchSlots& last = session.batch(run.micro_steps_per_program - 1);
      if (last.tokens.data() != session.batch().tokens.data()) {
        std::ranges::copy(last.tokens, session.batch().tokens.begin());
        std::ranges::copy(last.targets, session.batch().targets.begin());
      }
      result.evaluations.push_back(session.Evaluate(counted));
      if (session.HasAverages()) {
        session.ExchangeAverages();
        result.evaluations.push_back(session.Evaluate(counted));
        session.ExchangeAverages();
      }
    }
    if (run.caching && run.caching->empty_cache_every > 0 &&
        (step + 1) % run.caching->empty_cache_every == 0) {
      session.caching()->EmptyCache();
    }
  }
  for (const models::ParameterInfo& parameter : model->parameters()) {
    result.weights.push_back(session.ReadParameter(parameter.name));
  }
  for (const models::ParameterInfo& parameter : adapters) {
    result.weights.push_back(session.ReadParameter(parameter.name));
  }
  for (const StateTensor& tensor : session.State()) {
    if (tensor.saved.elements == 0) continue;
    const int64_t size = graph::ByteSize(tensor.dtype);
    std::vector<std::byte>& bytes = result.state[tensor.name];
    bytes.resize(static_cast<size_t>(tensor.saved.elements * size));
    session.ReadState(tensor, (tensor.saved.begin - tensor.begin) * size, bytes);
    if (!session.copies_state()) continue;
    session.AwaitCopy();
    const std::span<const std::byte> copied = session.Copied(tensor);
    result.copied[tensor.name].assign(copied.begin(), copied.end());
  }
  result.last = session.Metrics();
  result.rng = session.Read<int32_t>("rng");
  result.tensor_rng = session.Read<int32_t>("tensor_rng");
  if (run.caching) {
    result.caching = session.caching()->stats();
    result.host_caching = session.caching()->host_stats();
  }
  result.arena_bytes = session.compiled().plan.arena_bytes;
  result.host_arena_bytes = session.compiled().plan.host_arena_bytes;
  if (run.executor.check_arena) result.used_bytes = session.used_bytes();
  return result;
}

}  // namespace plimsoll::trainer
