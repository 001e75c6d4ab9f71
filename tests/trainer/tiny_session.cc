#include "tests/trainer/tiny_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <span>

#include "adapters/modules_to_save.h"
#include "base/thread_pool.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/gpu_memory.h"
#include "trainer/resolve/muon_matrices.h"

namespace plimsoll::trainer {

void UseMuon(TinyRun& run) {
  run.update.algorithm = optim::UpdateOptions::Algorithm::kMuon;
  run.update.momentum = 0.95;
  run.update.nesterov = true;
  run.update.muon.matrices = MuonMatrices(*models::MakeModel(run.spec), run.sequence);
  run.update.muon.dtype =
      run.amp.dtype == graph::DType::kBFloat16 ? graph::DType::kBFloat16 : graph::DType::kFloat32;
}

CompileOptions OptionsOf(const TinyRun& run, const models::Model& model,
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
  options.stages = run.stages;
  options.evaluate = run.evaluate;
  options.update = run.update;
  options.frozen = run.frozen;
  options.snapshot_copy = run.copy_after >= 0;
  options.snapshot_group_bytes = run.copied_at_once;
  if (!run.lora.empty()) {
    const auto saved = adapters::SelectSaved(model, run.lora_saved);
    options.lora = {.rank = 3,
                    .alpha = 6,
                    .dropout = run.lora_dropout,
                    .layers = adapters::SelectLayers(model, run.lora, saved),
                    .saved = saved};
    options.frozen = adapters::FrozenParameters(model, options.lora);
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
  options.capability = runtime::PresentCapability();
  options.threads = run.threads;
  options.without = run.without;
  options.added_pass = run.added_pass;
  return options;
}

// The end of the last tensor in the device's arena, workspaces aside.
int64_t TensorsEnd(const CompiledStep& compiled) {
  int64_t end = 0;
  for (size_t p = 0; p < compiled.programs.size(); ++p) {
    const auto& tensors = compiled.programs[p]->tensors();
    for (size_t id = 0; id < tensors.size(); ++id) {
      const graph::Tensor& tensor = tensors[id];
      if (tensor.alias || tensor.place != graph::Place::kDevice) continue;
      if (tensor.role == graph::Role::kWorkspace) continue;
      const int64_t begin = compiled.plan.programs[p].layout.offset(static_cast<int>(id));
      end = std::max(end, begin + tensor.bytes());
    }
  }
  return end;
}

TinyResult Train(const TinyRun& run) {
  const auto model = models::MakeModel(run.spec);
  ThreadPool pool(run.threads);
  const std::unique_ptr<runtime::Device> own = run.device != nullptr ? nullptr
                                               : run.cuda            ? runtime::MakeCudaDevice(pool)
                                                                     : runtime::MakeCpuDevice(pool);
  runtime::Device* const device = run.device != nullptr ? run.device : own.get();
  const CompileOptions options = OptionsOf(run, *model, device->kind());
  const MeshPosition position = run.ranks == nullptr ? MeshPosition() : run.ranks->position();
  runtime::ExecutorOptions executor = run.executor;
  if (run.ranks != nullptr) executor.communicators = run.ranks->communicators();
  CompiledStep compiled = Compile(*model, options);
  if (run.change != nullptr) run.change(compiled);
  runtime::StageLink* const link =
      run.link != nullptr || run.ranks == nullptr ? run.link : run.ranks->stage_link();
  Session session(std::move(compiled), *device, executor,
                  run.caching ? runtime::CachingAllocation(*run.caching) : memory::Allocation(),
                  run.ranks == nullptr ? runtime::AxisGroups() : run.ranks->groups(), link);
  session.Initialize(*model, 1);
  // B is not zero, so that A has a gradient already in the first step.
  const std::vector<models::ParameterInfo> adapters = adapters::Parameters(options.lora);
  for (models::ParameterInfo parameter : adapters) {
    parameter.init = {.kind = models::Initializer::kUniform, .bound = 0.1};
    session.Initialize(parameter, 1);
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
    const auto fill = [&](int64_t slot, int64_t micro) {
      const size_t at = size * (micro * data_ranks + position.at(kDataAxis));
      const BatchSlots& batch = session.batch(slot);
      if (batch.tokens.empty()) return;  // of a stage that reads no data
      std::copy_n(tokens.begin() + at, size, batch.tokens.begin());
      std::copy_n(targets.begin() + at, size, batch.targets.begin());
    };
    for (int64_t number = 0; number < session.compiled().step.runs(); ++number) {
      const StepRun what = session.compiled().step.At(number);
      for (int64_t i = 0; BeginsMicroSteps(what.action) && i < what.micro_steps; ++i) {
        fill(what.slot + i, what.micro_step + i);
      }
      if (run.before_run) run.before_run(session, step, what);
      session.Run(step, number);
    }
    if (step == run.copy_after) session.CopyState();
    result.losses.push_back(session.Metrics().loss);
    result.grad_norms.push_back(session.Metrics().grad_norm);
    if (run.evaluate) {
      fill(0, run.accumulate - 1);
      result.evaluations.push_back(session.Evaluate(counted));
      if (session.HasAverages()) {
        session.ExchangeAverages();
        result.evaluations.push_back(session.Evaluate(counted));
        session.ExchangeAverages();
      }
    }
    session.memory().BeforeStep(step + 1);
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
  if (run.caching) {
    result.caching = session.memory().stats(graph::Place::kDevice);
    result.host_caching = session.memory().stats(graph::Place::kHost);
    result.replayed_bytes =
        runtime::Replay(session.compiled().planned(), *run.caching).device.peak_reserved;
  }
  result.arena_bytes = session.compiled().plan.arena_bytes;
  result.host_arena_bytes = session.compiled().plan.host_arena_bytes;
  result.tensors_end = TensorsEnd(session.compiled());
  if (run.executor.check_arena) result.used_bytes = session.used_bytes();
  return result;
}

void ExpectSameNumbers(const TinyResult& actual, const TinyResult& expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.grad_norms, expected.grad_norms);
  EXPECT_EQ(actual.evaluations, expected.evaluations);
  EXPECT_EQ(actual.weights, expected.weights);
}

void ExpectSame(const TinyResult& actual, const TinyResult& expected) {
  ExpectSameNumbers(actual, expected);
  EXPECT_EQ(actual.state, expected.state);
  EXPECT_EQ(actual.copied, expected.copied);
}

}  // namespace plimsoll::trainer
