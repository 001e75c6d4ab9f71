#include "adapters/peft.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/glob.h"
#include "base/output_file.h"
#include "formats/json.h"
#include "formats/safetensors_writer.h"

namespace plimsoll::adapters {
namespace {

using formats::JsonObject;
using models::ParameterInfo;
using nlohmann::json;

constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";

// Keys that don't affect the computation once the weights are known.
constexpr std::string_view kOtherKeys[] = {"auto_mapping",   "base_model_name_or_path",
                                           "fan_in_fan_out", "inference_mode",
                                           "lora_dropout",   "megatron_core",
                                           "peft_version",   "qalora_group_size",
                                           "revision",       "task_type"};
// Keys that are read.
constexpr std::string_view kKeys[] = {"bias", "init_lora_weights", "lora_alpha", "peft_type",
                                      "r",    "target_modules",    "use_rslora"};

bool Contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool IsEmpty(const json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty()) ||
         value == "";
}

void RefuseUnsupported(const JsonObject& config) {
  if (const std::string type = config.RequireString("peft_type"); type != "LORA") {
    config.Fail("peft_type", "is " + formats::Printable(type) + "; only LORA adapters are read");
  }
  if (const std::string bias = config.GetString("bias", "none"); bias != "none") {
    config.Fail("bias", "is " + formats::Printable(bias) +
                            "; only adapters without trained biases "
                            "(none) are read");
  }
  const json& all = config.json();
  // Refuses initialisations that change the base's weights.
  if (const auto init = all.find("init_lora_weights"); init != all.end()) {
    const bool plain = init->is_null() || init->is_boolean() || *init == "gaussian" ||
                       *init == "orthogonal" || *init == "eva";
    if (!plain) {
      config.Fail("init_lora_weights", "is " + formats::Printable(init->dump()) +
                                           ", which goes with changed weights of the base");
    }
  }
  for (const auto& [key, value] : all.items()) {
    if (Contains(kKeys, key) || Contains(kOtherKeys, key) || IsEmpty(value)) continue;
    config.Fail(key, "is " + formats::Printable(value.dump()) + ", which is not supported");
  }
}

// One tensor of the file: some rows of A or B.
struct Part {
  ParameterInfo parameter;
  std::string name;
  int64_t first_row;
  std::vector<int64_t> shape;

  int64_t begin() const { return first_row * shape[1]; }
  int64_t elements() const { return shape[0] * shape[1]; }
};

// All tensors of the file, those of one parameter together.
std::vector<Part> PartsOf(const Lora& lora) {
  const std::vector<ParameterInfo> parameters = Parameters(lora);
  std::vector<Part> parts;
  for (size_t i = 0; i < lora.layers.size(); ++i) {
    const ParameterInfo &a = parameters[2 * i], &b = parameters[2 * i + 1];
    int64_t row = 0;
    for (const Module& module : lora.layers[i].modules) {
      parts.push_back({a,
                       fmt::format("{}{}.lora_A.weight", kPrefix, module.name),
                       row,
                       {lora.rank, a.shape.dim(1)}});
      row += lora.rank;
    }
    row = 0;
    for (const Module& module : lora.layers[i].modules) {
      parts.push_back({b,
                       fmt::format("{}{}.lora_B.weight", kPrefix, module.name),
                       row,
                       {module.rows, lora.rank}});
      row += module.rows;
    }
  }
  return parts;
}

void RequireSame(const std::string& folder, const Lora& lora) {
  const Settings settings = ReadSettings(folder);
  if (settings.rank != lora.rank) {
    throw UserError(
        fmt::format("{}: has rank {}, but lora.rank is {}", folder, settings.rank, lora.rank));
  }
  Lora other = lora;
  other.alpha = settings.alpha;
  other.rslora = settings.rslora;
  if (std::abs(other.scale() - lora.scale()) > 1e-9 * std::abs(lora.scale())) {
    throw UserError(
        fmt::format("{}: has lora_alpha {:g} and use_rslora {}, but lora.alpha is {:g} "
                    "and lora.rslora {}",
                    folder, settings.alpha, settings.rslora, lora.alpha, lora.rslora));
  }
}

void CheckTensors(const formats::SafetensorsReader& file, const std::vector<Part>& parts) {
  std::set<std::string> known;
  for (const Part& part : parts) {
    const formats::TensorEntry& entry = file.Require(part.name);
    if (entry.shape != part.shape) {
      throw UserError(fmt::format("{}: tensor \"{}\" has shape {}, but the model and {} ask for {}",
                                  file.file(), part.name, formats::ShapeText(entry.shape),
                                  kConfigFile, formats::ShapeText(part.shape)));
    }
    known.insert(part.name);
  }
  for (const formats::TensorEntry& entry : file.tensors()) {
    if (known.contains(entry.name)) continue;
    throw UserError(
        fmt::format("{}: tensor \"{}\" belongs to no linear layer that the targets "
                    "name: is the adapter of another model?",
                    file.file(), formats::Printable(entry.name)));
  }
}

// Whether weights are stored transposed, as in transformers' Conv1D; PEFT's config must say so.
bool IsStoredTransposed(const models::Model& model, const Lora& lora) {
  const models::CheckpointTable table = model.checkpoint_table();
  return std::ranges::any_of(table.entries, [&](const models::CheckpointEntry& entry) {
    return !entry.order.empty() && std::ranges::any_of(lora.layers, [&](const Layer& layer) {
      return MatchesGlob(entry.parameter, layer.WeightName());
    });
  });
}

std::string ConfigText(const models::Model& model, const Lora& lora, const std::string& base) {
  json alpha = lora.alpha;
  if (lora.alpha == std::floor(lora.alpha)) alpha = static_cast<int64_t>(lora.alpha);
  const nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                         {"task_type", "CAUSAL_LM"},
                                         {"base_model_name_or_path", base},
                                         {"r", lora.rank},
                                         {"lora_alpha", alpha},
                                         {"use_rslora", lora.rslora},
                                         {"lora_dropout", lora.dropout},
                                         {"target_modules", TargetsOf(model, lora.layers)},
                                         {"fan_in_fan_out", IsStoredTransposed(model, lora)},
                                         {"bias", "none"},
                                         {"init_lora_weights", true},
                                         {"modules_to_save", nullptr},
                                         {"inference_mode", true}};
  return config.dump(2) + "\n";
}

}  // namespace

Settings ReadSettings(const std::string& folder) {
  const JsonObject config = JsonObject::FromFile(folder + "/" + kConfigFile);
  RefuseUnsupported(config);
  constexpr int64_t kMaxRank = 1 << 20;
  constexpr double kMaxAlpha = 1e6;
  Settings settings{.rank = config.RequireInt("r", 1, kMaxRank),
                    .alpha = config.RequireFloat("lora_alpha"),
                    .rslora = config.GetBool("use_rslora", false),
                    .targets = {}};
  if (!(settings.alpha > 0 && settings.alpha <= kMaxAlpha)) {
    config.Fail("lora_alpha", fmt::format("is {:g}; it must be above 0 and at most {:g}",
                                          settings.alpha, kMaxAlpha));
  }
  const json& targets = config.json().value("target_modules", json());
  if (targets == "all-linear") {
    settings.targets = {"all-linear"};
  } else if (targets.is_string()) {
    config.Fail("target_modules", "is a regular expression; name the modules in a list");
  } else {
    settings.targets = config.RequireStrings("target_modules");
  }
  return settings;
}

void ReadAdapter(const std::string& folder, const Lora& lora,
                 FunctionRef<float*(const ParameterInfo&)> destination,
                 FunctionRef<void(const ParameterInfo&)> finished) {
  RequireSame(folder, lora);
  const formats::SafetensorsReader file(folder + "/" + kWeightsFile);
  const std::vector<Part> parts = PartsOf(lora);
  CheckTensors(file, parts);
  float* elements = nullptr;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    if (part.first_row == 0) elements = destination(part.parameter);
    file.ReadFloat32(part.name, elements + part.begin(), part.elements());
    if (i + 1 == parts.size() || parts[i + 1].first_row == 0) finished(part.parameter);
  }
}

void WriteAdapter(const std::string& folder, const models::Model& model, const Lora& lora,
                  const std::string& base, formats::TensorType type,
                  FunctionRef<const float*(const ParameterInfo&)> source) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw UserError(fmt::format("{}: cannot create this folder: {}", folder, error.message()));
  }
  const std::vector<Part> parts = PartsOf(lora);
  std::vector<formats::TensorSpec> specs;
  for (const Part& part : parts) specs.push_back({part.name, type, part.shape});
  size_t next = 0;  // all tensors have one type, so they come in order
  formats::WriteSafetensors(folder + "/" + kWeightsFile, specs,
                            [&](const formats::TensorSpec&, formats::TensorSink& sink) {
                              const Part& part = parts[next++];
                              sink.WriteFloat32({source(part.parameter) + part.begin(),
                                                 static_cast<size_t>(part.elements())});
                            },
                            {{"format", "pt"}});
  OutputFile config(folder + "/" + kConfigFile);
  config.Write(ConfigText(model, lora, base));
  config.Commit();
}

}  // namespace plimsoll::adapters
