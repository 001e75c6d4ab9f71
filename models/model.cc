#include "models/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/amounts.h"
#include "base/error.h"
#include "graph/block.h"
#include "graph/tensor_ids.h"

namespace plimsoll::models {
namespace {

std::string TextOf(const SettingValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return "";
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
          return fmt::format("{}", fmt::join(held, " "));
        else
          return fmt::format("{}", held);
      },
      value);
}

nlohmann::ordered_json JsonOf(const SettingValue& value) {
  return std::visit(
      [](const auto& held) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nullptr;
        else
          return held;
      },
      value);
}

// Whether nodes of different parts read one parameter: of different blocks, or outside the blocks
// on both sides of them.
bool SharesParameters(const graph::Program& program) {
  const graph::Blocks blocks(program);
  std::map<graph::TensorId, int> parts;  // maps a parameter to the first part that reads it
  bool past_blocks = false;              // whether a block came before
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const graph::Node& node = program.nodes()[n];
    const int block = blocks.Of(n);
    past_blocks = past_blocks || block != graph::kNoBlock;
    if (node.op->view) continue;
    const int part = block == graph::kNoBlock && past_blocks ? blocks.count() : block;
    for (const graph::TensorId input : graph::Present(node.inputs)) {
      const graph::TensorId id = program.Root(input);
      if (program.tensor(id).role != graph::Role::kParameter) continue;
      if (parts.emplace(id, part).first->second != part) return true;
    }
  }
  return false;
}

}  // namespace

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const ParameterInfo& parameter : parameters_) count += parameter.shape.elements();
  return count;
}

int64_t Model::block_count() const {
  int64_t count = 0;
  for (const ParameterInfo& parameter : parameters_) {
    const std::string_view block = graph::BlockIn(parameter.name);
    if (!block.empty()) count = std::max<int64_t>(count, graph::ParseBlock(block).number + 1);
  }
  return count;
}

std::string Model::title() const {
  return fmt::format("{} model with {}", family_, Counted(block_count(), "layer"));
}

Model::Outputs Model::Build(graph::Builder& builder, Batch batch, Head head, bool training,
                            std::string_view objective) const {
  CheckBatch(batch);
  Layers layers(builder, batch,
                {.training = training,
                 .dropout = dropout(),
                 .objective = objective,
                 .preference = preference()});
  Outputs outputs = Forward(layers, head);
  layers.MoveUpdatesToEnd();
  outputs.states = layers.state_updates();
  return outputs;
}

std::vector<ParameterInfo> Model::Stored() const {
  std::vector<ParameterInfo> stored = parameters_;
  for (const StateInfo& state : states_) {
    if (state.merge.ranks != graph::OverRanks::kOwn) stored.push_back(state.info());
  }
  return stored;
}

Model::Misfit Model::OnMisfit(const ParameterInfo& parameter) const {
  const bool grows =
      new_tokens_.first < new_tokens_.end &&
      std::ranges::find(new_tokens_.tables, parameter.name) != new_tokens_.tables.end();
  return grows ? Misfit::kFitted : Misfit::kRefused;
}

void Model::Fit(const ParameterInfo& parameter, std::span<const int64_t> shape,
                std::span<const float> stored, float* to) const {
  std::vector<int64_t> expected(parameter.shape.dims().begin(), parameter.shape.dims().end());
  expected[0] = new_tokens_.first;
  if (!std::ranges::equal(shape, expected)) {
    throw UserError(fmt::format("has {}, not one for each of the {} tokens of config.json",
                                Counted(shape.empty() ? 0 : shape[0], "row"), new_tokens_.first));
  }
  const int64_t width = std::ssize(stored) / new_tokens_.first;
  std::vector<double> mean(static_cast<size_t>(width));
  for (int64_t i = 0; i < std::ssize(stored); ++i) mean[i % width] += stored[i];
  for (double& sum : mean) sum /= static_cast<double>(new_tokens_.first);
  to = std::ranges::copy(stored, to).out;
  for (int64_t token = new_tokens_.first; token < new_tokens_.end; ++token) {
    for (const double value : mean) *to++ = static_cast<float>(value);
  }
}

void Model::set_new_tokens(int64_t stored, int64_t vocab, std::vector<std::string> tables) {
  new_tokens_ = {.first = stored, .end = vocab, .tables = std::move(tables)};
}

CheckpointTable Model::checkpoint_table() const {
  CheckpointTable table;
  for (const ParameterInfo& parameter : Stored()) {
    table.entries.push_back({parameter.name, {{parameter.name}}});
  }
  return table;
}

void Model::set_class_names(std::vector<std::string> names) {
  if (classes() == 0) return;
  bool named = false;
  for (size_t i = 0; i < names.size(); ++i) {
    named |= names[i] != NumberedClass(static_cast<int64_t>(i)) && names[i] != std::to_string(i);
  }
  if (!named) return;
  names.resize(static_cast<size_t>(std::min(classes(), std::ssize(names))));
  for (int64_t i = std::ssize(names); i < classes(); ++i) names.push_back(NumberedClass(i));
  class_names_ = std::move(names);
}

std::string NumberedClass(int64_t number) { return "LABEL_" + std::to_string(number); }

std::map<std::string, std::string> Model::description() const {
  std::map<std::string, std::string> described = {{"model.family", family_}};
  for (const std::string& name : settings_.Names()) {
    described["model." + name] = TextOf(settings_.Get(name));
  }
  return described;
}

void Model::WriteConfig(nlohmann::ordered_json& config) const {
  config["model_type"] = family_;
  for (const std::string& name : settings_.Names()) config[name] = JsonOf(settings_.Get(name));
}

// Parameters are listed by building the forward pass, since no other code names them.
void Model::ListParameters() {
  std::set<std::string> known;
  for (const Objective& objective : objectives()) {
    graph::Program program("parameters");
    graph::Builder builder(program);
    Layers layers(builder, {.batch = 1, .sequence = 1}, {.objective = objective.name});
    Forward(layers, Head::kLoss);
    for (const ParameterInfo& parameter : layers.parameters()) {
      if (known.insert(parameter.name).second) parameters_.push_back(parameter);
    }
    for (const StateInfo& state : layers.states()) {
      if (known.insert(state.name).second) states_.push_back(state);
    }
    for (const SingularStates& states : layers.singular_states()) {
      if (known.insert(states.u + "," + states.v).second) singular_states_.push_back(states);
    }
    for (const graph::Tensor& tensor : program.tensors()) {
      if (tensor.role == graph::Role::kInput) inputs_[tensor.name] = tensor.type;
    }
    shares_parameters_ = shares_parameters_ || SharesParameters(program);
  }
  std::erase_if(new_tokens_.tables, [&](const std::string& name) { return !known.contains(name); });
}

TextSizes TextSizesOf(const Model& model) {
  const std::optional<TextSizes> sizes = model.text_sizes();
  if (!sizes) {
    throw UserError(
        fmt::format("model.family: {}: these models continue no texts", model.family()));
  }
  return *sizes;
}

bool MakesImages(const Model& model) {
  const std::vector<Objective> objectives = model.objectives();
  return std::ranges::any_of(objectives, [&](const Objective& objective) {
    graph::Program program("images");
    graph::Builder builder(program);
    const Batch one = {.batch = 1, .sequence = 1};
    return model.Build(builder, one, Head::kLoss, false, objective.name).images != graph::kNoTensor;
  });
}

std::optional<std::vector<int64_t>> MatchNumbers(std::string_view pattern, std::string_view name) {
  std::vector<int64_t> numbers;
  while (!pattern.empty()) {
    if (pattern.front() != '*') {
      if (name.empty() || name.front() != pattern.front()) return std::nullopt;
      name.remove_prefix(1);
    } else {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      if (error != std::errc() || number < 0) return std::nullopt;
      name.remove_prefix(static_cast<size_t>(end - name.data()));
      numbers.push_back(number);
    }
    pattern.remove_prefix(1);
  }
  if (!name.empty()) return std::nullopt;
  return numbers;
}

std::string CheckpointRow::NameOf(const CheckpointTensor& tensor) const {
  std::string name;
  auto number = numbers.begin();
  for (const char c : tensor.name) {
    if (c == '*')
      name += std::to_string(*number++);
    else
      name += c;
  }
  return name;
}

CheckpointRow FindRow(const CheckpointTable& table, const std::string& parameter) {
  for (const CheckpointEntry& entry : table.entries) {
    if (auto numbers = MatchNumbers(entry.parameter, parameter)) return {&entry, *numbers};
  }
  throw InternalError("parameter '" + parameter + "' is in no row of the checkpoint table");
}

}  // namespace plimsoll::models
