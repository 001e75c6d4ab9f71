#include "adapters/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/glob.h"
#include "base/spelling.h"

namespace plimsoll::adapters {
namespace {

using graph::Shape;
using models::ParameterInfo;

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kAllLinear = "all-linear";

std::string WithoutWeight(std::string_view name) {
  return std::string(name.substr(0, name.size() - kWeight.size()));
}

// A model's linear weights are the matrices in its blocks.
bool IsLinear(const ParameterInfo& parameter) {
  return parameter.name.starts_with("block.") && parameter.name.ends_with(kWeight) &&
         parameter.shape.rank() == 2;
}

bool Matches(const std::string& target, const std::string& module) {
  return target == kAllLinear || MeansModule(target, module);
}

// The last `count` parts of a dotted name.
std::string End(const std::string& name, int count) {
  size_t dot = name.size();
  for (int i = 0; i < count && dot != name.npos && dot > 0; ++i) dot = name.rfind('.', dot - 1);
  return dot == name.npos || count == 0 ? name : name.substr(dot + 1);
}

// The last parts of the modules' names in the first layer.
std::set<std::string> ShortNames(const std::vector<Layer>& layers) {
  std::set<std::string> names;
  for (const Layer& layer : layers) {
    for (const Module& module : layer.modules) names.insert(End(module.name, 1));
  }
  return names;
}

std::vector<std::string> ModuleNames(const std::vector<Layer>& layers) {
  std::vector<std::string> names;
  for (const Layer& layer : layers) {
    for (const Module& module : layer.modules) names.push_back(module.name);
  }
  return names;
}

int64_t RowsOf(const Layer& layer) {
  int64_t rows = 0;
  for (const Module& module : layer.modules) rows += module.rows;
  return rows;
}

// The row for B in a sharding table. It keeps those blocks of the weight's rows that belong to the
// layer's targeted modules.
models::Sharding ShardingOfB(const Layer& layer, const models::Sharding& weight) {
  models::Sharding sharding{layer.BName(), models::Sharding::kRows};
  std::vector<int64_t> blocks = weight.blocks;
  if (blocks.empty()) blocks = {layer.weight.dim(0)};
  for (const Module& module : layer.modules) {
    int64_t first = 0;
    for (const int64_t block : blocks) {
      const bool inside =
          first >= module.first_row && first + block <= module.first_row + module.rows;
      if (inside) sharding.blocks.push_back(block);
      first += block;
    }
  }
  return sharding;
}

// All linear layers, each with all modules that an adapter can target.
std::vector<Layer> LinearLayers(const models::Model& model) {
  const models::CheckpointTable table = model.checkpoint_table();
  const std::vector<models::Sharding> shardings = model.sharding();
  std::vector<Layer> layers;
  for (const ParameterInfo& parameter : model.parameters()) {
    if (!IsLinear(parameter)) continue;
    const models::CheckpointRow in_files = models::FindRow(table, parameter.name);
    Layer layer{WithoutWeight(parameter.name), parameter.shape, {}, {}};
    int64_t row = 0;
    for (const models::CheckpointTensor& tensor : in_files.entry->tensors) {
      const int64_t rows = tensor.rows == 0 ? parameter.shape.dim(0) : tensor.rows;
      const std::string name = table.prefix + in_files.NameOf(tensor);
      layer.modules.push_back({WithoutWeight(name), row, rows});
      row += rows;
    }
    for (const models::Sharding& sharding : shardings) {
      if (layer.sharding || !MatchesGlob(sharding.pattern, parameter.name)) continue;
      layer.sharding = sharding;
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace

double Lora::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

bool MeansModule(const std::string& name, const std::string& module) {
  return MatchesGlob(name, module) || MatchesGlob("*." + name, module);
}

std::vector<Layer> SelectLayers(const models::Model& model, const std::vector<std::string>& targets,
                                std::span<const ParameterInfo> saved) {
  std::vector<Layer> layers = LinearLayers(model);
  if (layers.empty()) {
    throw UserError(
        fmt::format("a {} has no blocks with linear layers, which adapters go with; "
                    "train it without lora.rank",
                    model.title()));
  }
  const std::vector<std::string> names = ModuleNames(layers);
  for (const std::string& target : targets) {
    if (std::ranges::any_of(names, [&](const auto& name) { return Matches(target, name); })) {
      continue;
    }
    throw UserError(
        fmt::format("no linear layer matches '{}'; there are {}, or all-linear; the "
                    "full name of the first one is {}",
                    Shortened(target), fmt::join(ShortNames(layers), ", "), names.front()));
  }
  for (Layer& layer : layers) {
    std::erase_if(layer.modules, [&](const Module& module) {
      return std::ranges::none_of(targets,
                                  [&](const auto& target) { return Matches(target, module.name); });
    });
  }
  std::erase_if(layers, [&](const Layer& layer) {
    return layer.modules.empty() ||
           std::ranges::find(saved, layer.WeightName(), &ParameterInfo::name) != saved.end();
  });
  if (layers.empty()) {
    throw UserError("name only modules that lora.modules_to_save trains in full; name others");
  }
  return layers;
}

std::vector<std::string> TargetsOf(const models::Model& model, const std::vector<Layer>& layers) {
  const std::vector<std::string> wanted = ModuleNames(layers);
  for (const int parts : {1, 2}) {
    std::set<std::string> ends;
    for (const std::string& name : wanted) ends.insert(End(name, parts));
    std::vector<std::string> targets(ends.begin(), ends.end());
    if (ModuleNames(SelectLayers(model, targets)) == wanted) return targets;
  }
  return wanted;
}

std::vector<ParameterInfo> Parameters(const Lora& lora) {
  std::vector<ParameterInfo> parameters;
  for (const Layer& layer : lora.layers) {
    const auto modules = static_cast<int64_t>(layer.modules.size());
    const int64_t inputs = layer.weight.dim(1);
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    parameters.push_back({layer.AName(),
                          {modules * lora.rank, inputs},
                          {.kind = models::Initializer::kUniform, .bound = bound}});
    parameters.push_back(
        {layer.BName(), {RowsOf(layer), lora.rank}, {models::Initializer::kZeros}});
  }
  return parameters;
}

std::vector<ParameterInfo> TrainedParameters(const Lora& lora) {
  std::vector<ParameterInfo> parameters = Parameters(lora);
  std::ranges::copy(lora.saved, std::back_inserter(parameters));
  return parameters;
}

std::vector<std::string> FrozenParameters(const models::Model& model, const Lora& lora) {
  std::vector<std::string> names;
  for (const ParameterInfo& parameter : model.parameters()) {
    if (std::ranges::find(lora.saved, parameter.name, &ParameterInfo::name) == lora.saved.end()) {
      names.push_back(parameter.name);
    }
  }
  return names;
}

std::map<std::string, models::SplitParameter> SplitParameters(const models::Model& model,
                                                              const Lora& lora, int64_t ranks) {
  std::map<std::string, models::SplitParameter> split = models::SplitParameters(model, ranks);
  if (ranks == 1) return split;
  const std::vector<ParameterInfo> parameters = Parameters(lora);
  for (size_t i = 0; i < lora.layers.size(); ++i) {
    const Layer& layer = lora.layers[i];
    const ParameterInfo &a = parameters[2 * i], &b = parameters[2 * i + 1];
    if (!layer.sharding) continue;
    if (layer.sharding->split == models::Sharding::kColumns) {
      split.emplace(a.name,
                    models::SplitParameter({a.name, models::Sharding::kColumns}, a.shape, ranks));
    } else {
      split.emplace(b.name,
                    models::SplitParameter(ShardingOfB(layer, *layer.sharding), b.shape, ranks));
    }
  }
  return split;
}

void Merge(const Lora& lora, const Layer& layer, std::span<const float> a, std::span<const float> b,
           std::span<float> weight) {
  const auto scale = static_cast<float>(lora.scale());
  const int64_t inputs = layer.weight.dim(1);
  const float* a_rows = a.data();
  const float* b_row = b.data();
  for (const Module& module : layer.modules) {
    for (int64_t row = 0; row < module.rows; ++row, b_row += lora.rank) {
      float* const to = weight.data() + (module.first_row + row) * inputs;
      for (int64_t r = 0; r < lora.rank; ++r) {
        const float factor = scale * b_row[r];
        for (int64_t i = 0; i < inputs; ++i) to[i] += factor * a_rows[r * inputs + i];
      }
    }
    a_rows += lora.rank * inputs;
  }
}

}  // namespace plimsoll::adapters
