#include "adapters/peft.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "adapters/modules_to_save.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/output_file.h"
#include "formats/foreign_files.h"
#include "formats/json.h"
#include "formats/key_rules.h"
#include "formats/safetensors_writer.h"
#include "models/checkpoint_parts.h"

namespace plimsoll::adapters {
namespace {

using formats::Harmless;
using formats::JsonObject;
using formats::KeyRule;
using formats::Read;
using formats::Refused;
using models::ParameterInfo;
using models::Part;
using nlohmann::json;

constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";
// Keys in the metadata of the weights file; PEFT ignores them.
constexpr const char* kBaseChecksum = "plimsoll_base";
constexpr const char* kClassNames = "plimsoll_class_names";  // a JSON array

// A classifier's head has one of these names; PEFT lists both.
constexpr std::string_view kClassifier = "classifier", kScore = "score";

constexpr const char* kMergeWithPeft = "merge the adapter into its base with PEFT";

// The keys of PEFT's LoraConfig, up to version 0.21.
constexpr KeyRule kKeys[] = {
    Read("bias"),
    Read("ensure_weight_tying"),
    Read("init_lora_weights"),
    Read("lora_alpha"),
    Read("lora_dropout"),
    Read("modules_to_save"),
    Read("peft_type"),
    Read("r"),
    Read("target_modules"),
    Read("use_rslora"),
    Refused("alora_invocation_tokens", "train an adapter that is always active"),
    Refused("alpha_pattern", kMergeWithPeft),
    Refused("arrow_config", kMergeWithPeft),
    Refused("corda_config", kMergeWithPeft),
    Refused("eva_config", kMergeWithPeft),
    Refused("exclude_modules", "name the modules in target_modules alone"),
    Refused("kasa_config", kMergeWithPeft),
    Refused("layer_replication", kMergeWithPeft),
    Refused("layers_pattern", "name the modules in target_modules alone"),
    Refused("layers_to_transform", "name the modules in target_modules alone"),
    Refused("loftq_config", kMergeWithPeft),
    Refused("lora_bias", kMergeWithPeft),
    Refused("lora_ga_config", kMergeWithPeft),
    Refused("megatron_config", kMergeWithPeft),
    Refused("monteclora_config", kMergeWithPeft),
    Refused("rank_pattern", kMergeWithPeft),
    Refused("target_parameters", kMergeWithPeft),
    Refused("trainable_token_indices", kMergeWithPeft),
    Refused("use_bdlora", kMergeWithPeft),
    Refused("use_dora", kMergeWithPeft),
    Refused("use_qalora", kMergeWithPeft),
    Refused("velora_config", kMergeWithPeft),
    Harmless("auto_mapping", "PEFT finds the base's class by it"),
    Harmless("base_model_name_or_path", "the run file names the base"),
    Harmless("fan_in_fan_out", "the base's family says how its weights are stored"),
    Harmless("inference_mode", "it says whether PEFT trains the adapter"),
    Harmless("megatron_core", "it names a module of Python"),
    Harmless("peft_version", "it says what wrote the file"),
    Harmless("unsloth_*", "it says what wrote the file"),
    Harmless("torch_dtype", "the file of weights says their types"),
    Harmless("qalora_group_size", "it means something with use_qalora alone"),
    Harmless("revision", "it is a version of the base on a hub"),
    Harmless("runtime_config", "it says how PEFT runs the adapter"),
    Harmless("task_type", "the base's model says it"),
};

void RefuseUnsupported(const JsonObject& config) {
  CheckKeys(config, kKeys);
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
}

// All tensors of the file; tensors of one parameter follow each other.
std::vector<Part> PartsOf(const models::Model& model, const Lora& lora) {
  const std::vector<ParameterInfo> parameters = Parameters(lora);
  std::vector<Part> parts;
  const auto add = [&](const ParameterInfo& parameter, const Module& module, const char* kind,
                       int64_t first_row, int64_t rows) {
    const int64_t columns = parameter.shape.dim(1);
    parts.push_back({.parameter = parameter,
                     .name = fmt::format("{}{}.{}.weight", kPrefix, module.name, kind),
                     .first_row = first_row,
                     .rows = rows,
                     .columns = columns,
                     .shape = {rows, columns}});
  };
  for (size_t i = 0; i < lora.layers.size(); ++i) {
    const std::vector<Module>& modules = lora.layers[i].modules;
    int64_t row = 0;
    for (const Module& module : modules) {
      add(parameters[2 * i], module, "lora_A", row, lora.rank);
      row += lora.rank;
    }
    row = 0;
    for (const Module& module : modules) {
      add(parameters[2 * i + 1], module, "lora_B", row, module.rows);
      row += module.rows;
    }
  }
  if (lora.saved.empty()) return parts;
  for (Part& part : models::PartsOf(model)) {
    if (std::ranges::find(lora.saved, part.parameter) == lora.saved.end()) continue;
    part.name.insert(0, kPrefix);
    for (std::string& copy : part.copies) copy.insert(0, kPrefix);
    parts.push_back(std::move(part));
  }
  return parts;
}

formats::SafetensorsReader OpenWeights(const std::string& folder) {
  const std::string file = folder + "/" + kWeightsFile;
  if (std::error_code error; !std::filesystem::exists(file, error)) {
    formats::RefuseForeignFile(folder + "/adapter_model.bin");
  }
  return formats::SafetensorsReader(file);
}

std::vector<std::string> ModulesToSave(const std::string& folder, const JsonObject& config) {
  std::vector<std::string> names;
  if (config.Has("modules_to_save")) names = config.RequireStrings("modules_to_save");
  std::erase_if(names, [&](const std::string& name) {
    if (name != kClassifier && name != kScore) return false;
    const formats::SafetensorsReader file = OpenWeights(folder);
    return std::ranges::none_of(file.tensors(), [&](const formats::TensorEntry& tensor) {
      return MatchesGlob("*." + name + ".*", tensor.name);
    });
  });
  return names;
}

// Whether PEFT ties the two modules that share a weight: only if one of the trained modules has one
// of these names.
bool PeftTies(const Settings& settings) {
  return settings.ties &&
         std::ranges::any_of(settings.modules_to_save, [](const std::string& module) {
           return module.ends_with("embed_tokens") || module.ends_with("lm_head");
         });
}

// Throws unless PEFT ties a tied head. It is one weight here; an untied head would stay as it was
// before training.
void RequireTied(const std::string& folder, const models::Model& model, const Lora& lora,
                 const Settings& settings) {
  if (PeftTies(settings) || !HasTiedHead(model, lora.saved)) return;
  throw UserError(fmt::format(
      "{}: has a token embedding of its own, which {} does not tie (ensure_weight_tying, and "
      "embed_tokens or lm_head in modules_to_save), but the base's is the head as well; {}",
      folder, kConfigFile, kMergeWithPeft));
}

void RequireEqual(const formats::SafetensorsReader& file, const std::string& one,
                  const std::string& other) {
  const formats::TensorEntry &a = file.Require(one), &b = file.Require(other);
  std::vector<float> values(static_cast<size_t>(a.elements)), others(values.size());
  file.ReadFloat32(one, values.data(), a.elements);
  if (a.shape == b.shape) file.ReadFloat32(other, others.data(), b.elements);
  if (a.shape == b.shape && values == others) return;
  throw UserError(
      fmt::format("{}: tensors \"{}\" and \"{}\" differ, but the base ties them into one",
                  file.file(), one, other));
}

void RequireSame(const std::string& folder, const Lora& lora, const Settings& settings) {
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

// What to do if an adapter has more rows of a table than the base, which are rows for new tokens.
std::string MoreTokensText(const Part& part, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> asked = part.StoredShape();
  const bool table = part.name.ends_with("embed_tokens.weight") ||
                     part.name.ends_with("wte.weight") || part.name.ends_with("lm_head.weight");
  if (!table || shape.size() != 2 || asked.size() != 2 || shape[0] <= asked[0]) return "";
  return fmt::format(
      "; it was trained with more tokens than the base has: say model.vocab: {} in the run file, "
      "or "
      "export its run with --merge",
      shape[0]);
}

void CheckTensors(const formats::SafetensorsReader& file, const std::vector<Part>& parts) {
  std::vector<std::string> names;
  for (const formats::TensorEntry& entry : file.tensors()) names.push_back(entry.name);
  if (const auto foreign = formats::DescribeForeignNames(names)) {
    throw UserError(fmt::format("{}: {}", file.file(), *foreign));
  }
  std::set<std::string> known;
  for (const Part& part : parts) {
    const formats::TensorEntry& entry = file.Require(part.name);
    if (entry.shape != part.StoredShape()) {
      throw UserError(
          fmt::format("{}: tensor \"{}\" has shape {}, but the model and {} ask for {}{}",
                      file.file(), part.name, formats::ShapeText(entry.shape), kConfigFile,
                      formats::ShapeText(part.StoredShape()), MoreTokensText(part, entry.shape)));
    }
    known.insert(part.name);
    for (const std::string& copy : part.copies) {
      if (file.Find(copy) != nullptr) RequireEqual(file, part.name, copy);
      known.insert(copy);
    }
  }
  for (const formats::TensorEntry& entry : file.tensors()) {
    if (known.contains(entry.name)) continue;
    // PEFT also saves embeddings that are not in modules_to_save if the vocabulary was enlarged
    // before training.
    const bool grown =
        std::ranges::any_of(std::array{"embed_tokens.weight", "lm_head.weight", "wte.weight"},
                            [&](const char* end) { return entry.name.ends_with(end); });
    throw UserError(fmt::format(
        "{}: tensor \"{}\" belongs to no module that lora.targets or lora.modules_to_save name{}",
        file.file(), formats::Printable(entry.name),
        grown ? "; if the vocabulary grew for this adapter, a run file with lora.init_from, "
                "model.vocab and the module in lora.modules_to_save takes it"
              : ": is the adapter of another model?"));
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

std::string MetadataOf(const std::string& folder, const std::string& key) {
  const formats::SafetensorsReader file = OpenWeights(folder);
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? "" : found->second;
}

// PEFT's TaskType. With SEQ_CLS, PEFT assumes that the head is one of modules_to_save. PEFT has no
// task type for masked language models and for images.
json TaskType(const models::Model& model, const std::vector<std::string>& modules_to_save) {
  if (model.text_sizes()) return "CAUSAL_LM";
  const bool head = std::ranges::find(modules_to_save, kClassifier) != modules_to_save.end();
  return head && model.input_bounds().contains("tokens") ? json("SEQ_CLS") : json();
}

std::string ConfigText(const models::Model& model, const Lora& lora, const std::string& base) {
  const std::vector<std::string> saved = ModulesOf(model, lora.saved);
  json alpha = lora.alpha;
  if (lora.alpha == std::floor(lora.alpha)) alpha = static_cast<int64_t>(lora.alpha);
  nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                   {"task_type", TaskType(model, saved)},
                                   {"base_model_name_or_path", base},
                                   {"r", lora.rank},
                                   {"lora_alpha", alpha},
                                   {"use_rslora", lora.rslora},
                                   {"lora_dropout", lora.dropout},
                                   {"target_modules", TargetsOf(model, lora.layers)},
                                   {"fan_in_fan_out", IsStoredTransposed(model, lora)},
                                   {"bias", "none"},
                                   {"init_lora_weights", true},
                                   {"modules_to_save", saved.empty() ? json() : json(saved)},
                                   {"inference_mode", true}};
  // Versions of PEFT before 0.18 don't know this key.
  if (HasTiedHead(model, lora.saved)) config["ensure_weight_tying"] = true;
  return config.dump(2) + "\n";
}

}  // namespace

std::span<const KeyRule> ConfigKeys() { return kKeys; }

Settings ReadSettings(const std::string& folder) {
  const JsonObject config = JsonObject::FromFile(folder + "/" + kConfigFile);
  RefuseUnsupported(config);
  constexpr int64_t kMaxRank = 1 << 20;
  constexpr double kMaxAlpha = 1e6;
  Settings settings{.rank = config.RequireInt("r", 1, kMaxRank),
                    .alpha = config.RequireFloat("lora_alpha"),
                    .rslora = config.GetBool("use_rslora", false),
                    .dropout = config.GetFloat("lora_dropout", 0),
                    .targets = {},
                    .modules_to_save = ModulesToSave(folder, config),
                    .ties = config.GetBool("ensure_weight_tying", false)};
  if (!(settings.alpha > 0 && settings.alpha <= kMaxAlpha)) {
    config.Fail("lora_alpha", fmt::format("is {:g}; it must be above 0 and at most {:g}",
                                          settings.alpha, kMaxAlpha));
  }
  if (!(settings.dropout >= 0 && settings.dropout < 1)) {
    config.Fail("lora_dropout",
                fmt::format("is {:g}; it must be at least 0 and below 1", settings.dropout));
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

void ReadAdapter(const std::string& folder, const models::Model& model, const Lora& lora,
                 FunctionRef<float*(const ParameterInfo&)> destination,
                 FunctionRef<void(const ParameterInfo&)> finished,
                 std::span<const std::string> optional) {
  const Settings settings = ReadSettings(folder);
  RequireSame(folder, lora, settings);
  RequireTied(folder, model, lora, settings);
  const formats::SafetensorsReader file = OpenWeights(folder);
  std::vector<Part> parts = PartsOf(model, lora);
  std::erase_if(parts, [&](const Part& part) {
    return file.Find(part.name) == nullptr &&
           std::ranges::find(optional, part.parameter.name) != optional.end();
  });
  CheckTensors(file, parts);
  float* elements = nullptr;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    if (part.first_row == 0) elements = destination(part.parameter);
    models::TakeStored(
        part, [&](float* stored) { file.ReadFloat32(part.name, stored, part.elements()); },
        elements);
    if (i + 1 == parts.size() || parts[i + 1].first_row == 0) finished(part.parameter);
  }
}

std::string BaseChecksumOf(const std::string& folder) { return MetadataOf(folder, kBaseChecksum); }

std::vector<std::string> ClassNamesOf(const std::string& folder) {
  const std::string names = MetadataOf(folder, kClassNames);
  if (names.empty()) return {};
  const std::string object = fmt::format("{{\"{}\": {}}}", kClassNames, names);
  return JsonObject::FromText(object, folder + "/" + kWeightsFile).RequireStrings(kClassNames);
}

void WriteAdapter(const std::string& folder, const models::Model& model, const Lora& lora,
                  const Base& base, formats::TensorType type,
                  FunctionRef<const float*(const ParameterInfo&)> source) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw UserError(fmt::format("{}: cannot create this folder: {}", folder, error.message()));
  }
  const std::vector<Part> parts = PartsOf(model, lora);
  std::vector<formats::TensorSpec> specs;
  std::vector<const Part*> of_specs;  // each spec's part; PEFT expects both names of a tied head
  const auto add = [&](const Part& part, const std::string& name) {
    specs.push_back({name, type, part.StoredShape()});
    of_specs.push_back(&part);
  };
  for (const Part& part : parts) {
    add(part, part.name);
    for (const std::string& copy : part.copies) add(part, copy);
  }
  formats::Metadata metadata = {{"format", "pt"}};
  if (!base.checksum.empty()) metadata[kBaseChecksum] = base.checksum;
  if (!model.class_names().empty()) {
    metadata[kClassNames] =
        json(model.class_names()).dump(-1, ' ', false, json::error_handler_t::replace);
  }
  size_t next = 0;  // all tensors have one type, so they come in order
  formats::WriteSafetensors(
      folder + "/" + kWeightsFile, specs,
      [&](const formats::TensorSpec&, formats::TensorSink& sink) {
        const Part& part = *of_specs[next++];
        models::GiveStored(part, source(part.parameter),
                           [&](std::span<const float> stored) { sink.WriteFloat32(stored); });
      },
      metadata);
  WriteWhole(folder + "/" + kConfigFile, ConfigText(model, lora, base.folder));
}

}  // namespace plimsoll::adapters
