// Runs a checkpoint folder forward on the CPU, for tests and for comparisons with other programs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/program.h"
#include "memory/plan.h"
#include "models/model.h"
#include "runtime/arena.h"
#include "runtime/cpu_executor.h"

namespace plimsoll::models {

// One program that evaluates `head`, with the folder's weights.
class Forward {
 public:
  Forward(const std::string& folder, Batch batch, Head head);

  const Model& model() const { return *model_; }

  // Head::kLoss: the mean loss. tokens and targets [B·T].
  double Loss(const std::vector<int32_t>& tokens, const std::vector<int32_t>& targets);
  // Head::kLogits, one row: [T·V], the logits of every position.
  std::vector<float> Logits(const std::vector<int32_t>& tokens);
  // Head::kLogits of a model that reads the input "images", [B,H,W,C]: [B,V].
  std::vector<float> ClassLogits(const std::vector<float>& images);

 private:
  template <typename T>
  void Write(const std::string& input, const std::vector<T>& values);

  std::unique_ptr<Model> model_;
  Batch batch_;
  graph::Program program_;
  memory::MemoryPlan plan_;
  ThreadPool pool_{2};
  std::unique_ptr<runtime::Arena> arena_;
  std::unique_ptr<runtime::CpuExecutor> executor_;
};

}  // namespace plimsoll::models
