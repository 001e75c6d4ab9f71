// Runs a checkpoint folder forward on the CPU, for tests and for comparisons with other programs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/json.h"
#include "graph/program.h"
#include "memory/plan.h"
#include "models/model.h"
#include "runtime/arena.h"
#include "runtime/cpu/cpu_executor.h"

namespace plimsoll::models {

// A batch's data, by input: "tokens" or "images".
using Inputs = std::map<std::string, std::vector<double>>;

// A batch, and the settings with which it is read, as the JSON of check_encoders.py has them.
struct GivenBatch {
  explicit GivenBatch(const formats::JsonObject& json);

  Batch batch;
  Settings settings;
  Inputs data;     // what the logits depend on
  Inputs targets;  // what the loss depends on
};

// One program that evaluates `head`, with the folder's weights. `settings` are given beside them;
// then parameters that do not fit are fitted, or refused where they would start afresh.
class Forward {
 public:
  Forward(const std::string& folder, Batch batch, Head head, Settings settings = {});

  const Model& model() const { return *model_; }

  // Head::kLoss: the loss alone, a mean over the targets (or labels) that are not negative, and
  // over the samples. Head::kLogits: [B,V] of the samples, or, where the model has logits for each
  // position, [T,B,V].
  std::vector<float> Run(const Inputs& inputs);

  // Head::kLoss: the mean loss. tokens and targets [B·T].
  double Loss(const std::vector<int32_t>& tokens, const std::vector<int32_t>& targets);
  // Head::kLogits, one row: [T·V], the logits of every position.
  std::vector<float> Logits(const std::vector<int32_t>& tokens);
  // Head::kLogits of a model that reads the input "images", [B,H,W,C]: [B,V].
  std::vector<float> ClassLogits(const std::vector<float>& images);

 private:
  bool Reads(const std::string& input) const;
  void Write(const std::string& input, const std::vector<double>& values);

  std::unique_ptr<Model> model_;
  Batch batch_;
  graph::Program program_;
  memory::MemoryPlan plan_;
  ThreadPool pool_{2};
  std::unique_ptr<runtime::Arena> arena_;
  std::unique_ptr<runtime::CpuExecutor> executor_;
};

}  // namespace plimsoll::models
