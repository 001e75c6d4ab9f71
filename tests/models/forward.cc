#include "tests/models/forward.h"

#include <algorithm>

#include "base/error.h"
#include "graph/simplify.h"
#include "models/huggingface.h"
#include "runtime/workspaces.h"

namespace plimsoll::models {

Forward::Forward(const std::string& folder, Batch batch, Head head)
    : model_(ModelFromHuggingFace(folder)), batch_(batch), program_("forward") {
  graph::Builder builder(program_);
  const Model::Outputs outputs = model_->Build(builder, batch, head, false);
  const graph::Value id = head == Head::kLoss ? outputs.loss : outputs.logits;
  program_.Rename(id, head == Head::kLoss ? "loss" : "logits");
  graph::Tensor& result = program_.mutable_tensor(id);
  result.role = graph::Role::kMetric;
  result.persistent = true;
  graph::Simplify().Run(program_);
  runtime::AddWorkspaces(program_, pool_.size());
  const graph::Program* const programs[] = {&program_};
  plan_ = memory::MakePlan(programs);
  arena_ = std::make_unique<runtime::Arena>(plan_.arena_bytes);
  executor_ = std::make_unique<runtime::CpuExecutor>(program_, plan_.programs[0].layout, *arena_,
                                                     nullptr, pool_);
  std::vector<float> unread;  // a state that evaluations do without
  LoadWeights(folder, *model_, [&](const ParameterInfo& parameter) {
    unread.resize(static_cast<size_t>(parameter.shape.elements()));
    return program_.Find(parameter.name) == graph::kNoTensor
               ? unread.data()
               : static_cast<float*>(executor_->address(parameter.name));
  });
}

template <typename T>
void Forward::Write(const std::string& input, const std::vector<T>& values) {
  if (static_cast<int64_t>(values.size()) != executor_->type(input).shape.elements()) {
    throw InternalError("'" + input + "' needs " + executor_->type(input).ToString());
  }
  std::ranges::copy(values, static_cast<T*>(executor_->address(input)));
}

double Forward::Loss(const std::vector<int32_t>& tokens, const std::vector<int32_t>& targets) {
  Write("tokens", tokens);
  Write("targets", targets);
  const auto counted = std::ranges::count_if(targets, [](int32_t target) { return target >= 0; });
  *static_cast<float*>(executor_->address("token_weight")) = 1.0f / static_cast<float>(counted);
  executor_->Run();
  return *static_cast<const float*>(executor_->address("loss"));
}

std::vector<float> Forward::Logits(const std::vector<int32_t>& tokens) {
  Write("tokens", tokens);
  std::vector<float> all;
  for (int64_t position = 0; position < batch_.sequence; ++position) {
    Write("last", std::vector{static_cast<int32_t>(position)});
    executor_->Run();
    const auto* logits = static_cast<const float*>(executor_->address("logits"));
    all.insert(all.end(), logits, logits + TextSizesOf(*model_).vocab);
  }
  return all;
}

std::vector<float> Forward::ClassLogits(const std::vector<float>& images) {
  Write("images", images);
  executor_->Run();
  const auto* logits = static_cast<const float*>(executor_->address("logits"));
  return {logits, logits + executor_->type("logits").shape.elements()};
}

}  // namespace plimsoll::models
