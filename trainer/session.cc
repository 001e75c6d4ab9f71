#include "trainer/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "models/huggingface.h"
#include "runtime/process_memory.h"
#include "trainer/initialize.h"

namespace plimsoll::trainer {
namespace {

// The system hands out more than it has and takes it back by killing: refused here instead.
void CheckAvailable(int64_t needed, std::string_view what) {
  const int64_t available = runtime::AvailableMemory();
  if (needed <= available) return;
  throw UserError(fmt::format("{} needs {}, but this machine has {} of memory left; a smaller "
                              "train.micro_batch, model.sequence or model needs less (see plimsoll "
                              "plan)",
                              what, FormatBytes(needed), FormatBytes(available)),
                  ExitCode::kBudgetNotMet);
}

const memory::MemoryPlan& Fitting(const memory::MemoryPlan& plan) {
  CheckAvailable(plan.arena_bytes + plan.host_arena_bytes, "the plan");
  return plan;
}

}  // namespace

Session::Session(CompiledStep compiled, ThreadPool& pool, runtime::CpuExecutorOptions options,
                 const std::optional<CachingOptions>& caching)
    : compiled_(std::move(compiled)),
      pool_(pool),
      arena_(caching ? 0 : Fitting(compiled_.plan).arena_bytes),
      host_arena_(caching ? 0 : compiled_.plan.host_arena_bytes) {
  std::vector<runtime::TensorMemory*> memories;
  if (caching) {
    const memory::ReplayResult replay = Replay(compiled_, *caching);
    CheckAvailable(replay.device.peak_reserved + replay.host.peak_reserved,
                   "memory.allocator: caching");
    caching_ = std::make_unique<runtime::CachingMemory>(runtime::CachingMemoryOptions{
        .preallocate_bytes = caching->preallocate_bytes, .poison = options.poison});
    memory::FillCachingMemory(Programs(compiled_), compiled_.plan, caching->in_place, *caching_,
                              memories);
    options.poison = false;  // the memory's own task
  }
  for (size_t i = 0; i < compiled_.programs.size(); ++i) {
    const graph::Program& program = *compiled_.programs[i];
    executors_.push_back(
        caching ? std::make_unique<runtime::CpuExecutor>(program, *memories[i], pool_, options)
                : std::make_unique<runtime::CpuExecutor>(program, compiled_.plan.programs[i].layout,
                                                         arena_, &host_arena_, pool_, options));
  }
  batch_ = {Carried<int32_t>("tokens"), Carried<int32_t>("targets")};
  token_weight_ = Carried<float>("token_weight").data();
  lr_ = Carried<float>("lr").data();
  rng_ = Carried<int32_t>("rng").data();
  loss_ = Carried<float>("loss").data();
  grad_norm_ = Carried<float>("grad_norm").data();
  loss_scale_ = Carried<float>("loss_scale").data();
  skipped_ = Carried<int32_t>("skipped").data();
  if (loss_scale_ != nullptr) *loss_scale_ = static_cast<float>(compiled_.options.init_loss_scale);
}

void* Session::Address(std::string_view name) const {
  for (size_t i = 0; i < executors_.size(); ++i) {
    const graph::TensorId id = compiled_.programs[i]->Find(name);
    // A tensor that its program declares but does not use has no memory there.
    if (id != graph::kNoTensor &&
        compiled_.plan.programs[i].layout.offset(id) != runtime::kUnplaced) {
      return executors_[i]->address(name);
    }
  }
  return nullptr;
}

int64_t Session::Elements(std::string_view name) const {
  for (size_t i = 0; i < compiled_.programs.size(); ++i) {
    const graph::Program& program = *compiled_.programs[i];
    const graph::TensorId id = program.Find(name);
    if (id != graph::kNoTensor &&
        compiled_.plan.programs[i].layout.offset(id) != runtime::kUnplaced) {
      return program.tensor(id).type.shape.elements();
    }
  }
  return 0;
}

const graph::TensorType& Session::TypeOf(std::string_view name) const {
  for (const memory::PersistentTensor& tensor : compiled_.plan.persistent) {
    if (tensor.name == name) return tensor.type;
  }
  throw InternalError("no program carries '" + std::string(name) + "'");
}

StoredParameter Session::Parameter(std::string_view name) {
  const std::string stem(name);
  return {TypeOf(name).dtype, Elements(name), Address(name),
          static_cast<int16_t*>(Address(stem + ".remainder")),
          static_cast<float*>(Address(stem + ".master"))};
}

void Session::Initialize(const models::Model& model, uint64_t seed) {
  std::vector<float> values;
  for (const models::ParameterInfo& parameter : model.parameters()) {
    const StoredParameter stored = Parameter(parameter.name);
    if (const std::span<float> whole = stored.InPlace(); !whole.empty()) {
      InitializeParameter(parameter, seed, whole, pool_);
      continue;
    }
    values.resize(stored.elements());
    InitializeParameter(parameter, seed, values, pool_);
    stored.Set(values);
  }
}

void Session::LoadWeights(const models::Model& model, const std::string& folder) {
  std::vector<float> values;  // of a parameter that is not stored as float32
  models::LoadWeights(
      folder, model,
      [&](const models::ParameterInfo& parameter) {
        const StoredParameter stored = Parameter(parameter.name);
        if (const std::span<float> whole = stored.InPlace(); !whole.empty()) return whole.data();
        values.resize(stored.elements());
        return values.data();
      },
      [&](const models::ParameterInfo& parameter) {
        const StoredParameter stored = Parameter(parameter.name);
        if (stored.InPlace().empty()) stored.Set(values);
      });
}

void Session::SaveWeights(const models::Model& model, const std::string& folder) {
  std::vector<float> values;
  models::SaveWeights(folder, model, [&](const models::ParameterInfo& parameter) -> const float* {
    const StoredParameter stored = Parameter(parameter.name);
    if (const std::span<float> whole = stored.InPlace(); !whole.empty()) return whole.data();
    values.resize(stored.elements());
    stored.Get(values);
    return values.data();
  });
}

void Session::BeginStep(int64_t tokens, double lr, uint64_t seed) {
  *token_weight_ = static_cast<float>(1.0 / static_cast<double>(tokens));
  *lr_ = static_cast<float>(lr);
  if (rng_ != nullptr) rng_[0] = static_cast<int32_t>(seed ^ (seed >> 32));
}

void Session::RunMicroStep(int64_t step, int64_t micro_step) {
  if (rng_ != nullptr) rng_[1] = static_cast<int32_t>(step * accumulate() + micro_step);
  executors_[compiled_.step.MicroStep(micro_step, accumulate())]->Run();
}

StepMetrics Session::Metrics() const {
  StepMetrics metrics;
  metrics.loss = *loss_;
  metrics.grad_norm = *grad_norm_;
  if (loss_scale_ != nullptr) metrics.loss_scale = *loss_scale_;
  if (skipped_ != nullptr) {
    metrics.skipped = skipped_[0];
    metrics.skipped_in_a_row = skipped_[1];
  }
  return metrics;
}

double Session::Evaluate(int64_t tokens) {
  *token_weight_ = static_cast<float>(1.0 / static_cast<double>(tokens));
  executors_[compiled_.step.evaluation]->Run();
  return *loss_;
}

int64_t Session::used_bytes() const {
  int64_t used = 0;
  for (const auto& executor : executors_) {
    if (executor->runs() > 0) used = std::max(used, executor->used_bytes());
  }
  return used;
}

}  // namespace plimsoll::trainer
