// A compiled step in memory: the arena (or the caching allocator), the executors bound to it, and
// the slots through which the host hands in batches and takes out metrics.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/arena.h"
#include "runtime/cpu_executor.h"
#include "trainer/caching.h"
#include "trainer/compile.h"
#include "trainer/stored_parameter.h"

namespace plimsoll::trainer {

// One micro-batch: ids and targets are int32 [B,T], row-major; negative targets carry no loss.
struct BatchSlots {
  std::span<int32_t> tokens;
  std::span<int32_t> targets;
};

struct StepMetrics {
  double loss = 0;        // nats per token, mean over the step's tokens
  double grad_norm = 0;   // infinite or NaN when a gradient is
  double loss_scale = 1;  // of the next step
  int64_t skipped = 0;    // updates skipped so far because a scaled gradient overflowed
  int64_t skipped_in_a_row = 0;
};

class Session {
 public:
  // Allocates the arena; its bytes are zero. UserError when the machine lacks the memory. With
  // `caching`, tensors get memory as a framework would give it to them, and there is no arena.
  Session(CompiledStep compiled, ThreadPool& pool, runtime::CpuExecutorOptions options = {},
          const std::optional<CachingOptions>& caching = std::nullopt);

  const CompiledStep& compiled() const { return compiled_; }
  int64_t accumulate() const { return compiled_.options.accumulate; }

  // The slots that the next micro-step or evaluation reads.
  BatchSlots batch() { return batch_; }

  // Fills every parameter from its initializer. The numbers depend on seed and parameter name
  // alone; moments and counters are zero as they are.
  void Initialize(const models::Model& model, uint64_t seed);
  // As a run directory or a checkpoint holds it: float32, whatever the arena holds.
  StoredParameter Parameter(std::string_view name);
  void LoadWeights(const models::Model& model, const std::string& folder);
  void SaveWeights(const models::Model& model, const std::string& folder);
  // A carried tensor's elements: "block.0.attn.qkv.weight", "update_count". Empty when no program
  // uses such a tensor.
  template <typename T>
  std::span<T> Carried(std::string_view name) {
    return {static_cast<T*>(Address(name)), static_cast<size_t>(Elements(name))};
  }

  // One step is a call of BeginStep and `accumulate` calls of RunMicroStep, each after filling
  // batch(). `tokens` counts the targets that carry loss in all of them; the loss is their mean.
  void BeginStep(int64_t tokens, double lr, uint64_t seed);
  void RunMicroStep(int64_t step, int64_t micro_step);
  StepMetrics Metrics() const;

  // The mean loss over batch(), times the batch's share in `tokens`: adding up over all batches
  // gives the mean over `tokens`.
  double Evaluate(int64_t tokens);

  // With `caching`; nullptr on a planned arena. Its cache may be emptied between runs.
  runtime::CachingMemory* caching() { return caching_.get(); }

  // Bytes of the arena that the programs run so far have used; with check_arena only.
  int64_t used_bytes() const;
  runtime::CpuExecutor& executor(int program) { return *executors_[program]; }

 private:
  void* Address(std::string_view name) const;  // nullptr: no program uses it
  int64_t Elements(std::string_view name) const;
  const graph::TensorType& TypeOf(std::string_view name) const;  // of a carried tensor in use

  CompiledStep compiled_;
  ThreadPool& pool_;
  runtime::Arena arena_;
  runtime::Arena host_arena_;
  std::unique_ptr<runtime::CachingMemory> caching_;
  std::vector<std::unique_ptr<runtime::CpuExecutor>> executors_;

  // Slots, nullptr where no program has them. Looked up once: a step looks nothing up.
  BatchSlots batch_;
  float* token_weight_;
  float* lr_;
  int32_t* rng_;  // seed, micro-step
  const float* loss_;
  const float* grad_norm_;
  float* loss_scale_;
  const int32_t* skipped_;  // in all, in a row
};

}  // namespace plimsoll::trainer
