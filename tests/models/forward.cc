#include "tests/models/forward.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "graph/simplify.h"
#include "models/huggingface.h"
#include "runtime/workspaces.h"

namespace plimsoll::models {

namespace {

Inputs InputsIn(const formats::JsonObject& json, const char* member) {
  Inputs inputs;
  const formats::JsonObject values = json.RequireObject(member);
  for (const std::string& name : values.Keys()) inputs[name] = values.RequireFloats(name);
  return inputs;
}

}  // namespace

GivenBatch::GivenBatch(const formats::JsonObject& json)
    : batch{json.RequireInt("batch"), json.RequireInt("sequence")},
      data(InputsIn(json, "data")),
      targets(InputsIn(json, "targets")) {
  const formats::JsonObject given = json.RequireObject("settings");
  for (const std::string& key : given.Keys()) {
    const auto& value = given.json().at(key);
    SettingValue setting = value.is_boolean()  ? SettingValue(value.get<bool>())
                           : value.is_string() ? SettingValue(value.get<std::string>())
                                               : SettingValue(value.get<int64_t>());
    settings.Set(key, std::move(setting), "test");
  }
}

Forward::Forward(const std::string& folder, Batch batch, Head head, Settings settings)
    : model_(ModelFromHuggingFace(folder, settings)), batch_(batch), program_("forward") {
  graph::Builder builder(program_);
  const Model::Outputs outputs = model_->Build(builder, batch, head, false);
  const graph::Value id = head == Head::kLoss ? outputs.loss : outputs.logits;
  program_.Rename(id, head == Head::kLoss ? "loss" : "logits");
  graph::Tensor& result = program_.mutable_tensor(id);
  result.role = graph::Role::kMetric;
  result.persistent = true;
  graph::Simplify().Run(program_);
  runtime::AddWorkspaces(program_, {.threads = pool_.size()});
  const graph::Program* const programs[] = {&program_};
  plan_ = memory::MakePlan(programs);
  arena_ = std::make_unique<runtime::Arena>(plan_.arena_bytes);
  executor_ = std::make_unique<runtime::CpuExecutor>(program_, plan_.programs[0].layout, *arena_,
                                                     nullptr, pool_);
  const WeightReader reader(folder, *model_, Misfits::kAllowed);
  for (const ParameterInfo& parameter : model_->Stored()) {
    if (!reader.Has(parameter)) throw UserError(folder + " has no " + parameter.name);
    if (!Reads(parameter.name)) continue;  // a state that evaluations do without
    reader.Read(parameter, static_cast<float*>(executor_->address(parameter.name)));
  }
}

bool Forward::Reads(const std::string& input) const {
  return program_.Find(input) != graph::kNoTensor;
}

void Forward::Write(const std::string& input, const std::vector<double>& values) {
  const graph::TensorType& type = executor_->type(input);
  if (static_cast<int64_t>(values.size()) != type.shape.elements()) {
    throw InternalError("'" + input + "' needs " + type.ToString());
  }
  if (type.dtype == graph::DType::kInt32) {
    std::ranges::transform(values, static_cast<int32_t*>(executor_->address(input)),
                           [](double value) { return static_cast<int32_t>(value); });
  } else {
    std::ranges::transform(values, static_cast<float*>(executor_->address(input)),
                           [](double value) { return static_cast<float>(value); });
  }
}

std::vector<float> Forward::Run(const Inputs& inputs) {
  for (const auto& [name, values] : inputs) {
    Write(name, values);
    if (name == "label_values") {
      Write("token_weight", {1.0 / static_cast<double>(batch_.batch)});
    }
    if (name != "targets" && name != "labels") continue;
    const auto counted = std::ranges::count_if(values, [](double target) { return target >= 0; });
    Write("token_weight", {1.0 / static_cast<double>(counted)});
  }
  if (Reads("sample_weight")) Write("sample_weight", {1.0 / static_cast<double>(batch_.batch)});
  const char* const name = Reads("logits") ? "logits" : "loss";
  const auto size = static_cast<size_t>(executor_->type(name).shape.elements());
  std::vector<float> results;
  for (int64_t position = 0; position < batch_.sequence; ++position) {
    if (Reads("last")) {
      Write("last", std::vector(static_cast<size_t>(batch_.batch), static_cast<double>(position)));
    }
    executor_->Run();
    const auto* result = static_cast<const float*>(executor_->address(name));
    results.insert(results.end(), result, result + size);
    if (!Reads("last")) break;
  }
  return results;
}

double Forward::Loss(const std::vector<int32_t>& tokens, const std::vector<int32_t>& targets) {
  return Run({{"tokens", {tokens.begin(), tokens.end()}},
              {"targets", {targets.begin(), targets.end()}}})
      .front();
}

std::vector<float> Forward::Logits(const std::vector<int32_t>& tokens) {
  return Run({{"tokens", {tokens.begin(), tokens.end()}}});
}

std::vector<float> Forward::ClassLogits(const std::vector<float>& images) {
  return Run({{"images", {images.begin(), images.end()}}});
}

}  // namespace plimsoll::models
