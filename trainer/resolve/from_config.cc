#include "trainer/resolve/from_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "data/images/preprocessor_config.h"
#include "data/source.h"
#include "graph/block.h"
#include "models/family.h"
#include "models/huggingface.h"
#include "models/language_model.h"
#include "trainer/config/derived_values.h"
#include "trainer/config/follow_data.h"
#include "trainer/config/micro_batches.h"
#include "trainer/config/owner_keys.h"
#include "trainer/config/schema.h"
#include "trainer/resolve/known_gpus.h"
#include "trainer/resolve/run_device.h"
#include "trainer/step/adapter.h"

namespace plimsoll::trainer {
namespace {

// The model of a configuration whose model.init_from isn't empty. Fills in what `settings` leaves
// open.
std::unique_ptr<models::Model> ModelOfFolder(const config::RunConfig& config, Settings& settings) {
  try {
    return models::ModelFromHuggingFace(config.model.init_from, settings);
  } catch (const SettingError& error) {
    const bool mixes = error.name() == "mixed_labels" && !config.IsSet("model.mixed_labels");
    throw mixes ? config::NoSecondLabels(config) : config::ErrorOf(config, "model", error);
  } catch (const UserError& error) {
    throw config.Error("model.init_from", error.what());
  }
}

// Sets model.vocab if the file names a tokenizer and gives no number.
void FollowTokenizer(config::RunConfig& config) {
  try {
    config.model.settings.Set("vocab", data::LoadTokenizer(config.data.tokenizer)->vocab_size());
  } catch (const UserError& error) {
    throw config.Error("data.tokenizer", error.what());
  }
}

// Throws a UserError unless the tensor-parallel ranks can share the model equally.
void CheckTensorRanks(const config::RunConfig& config, const models::Model& model) {
  const int64_t ranks = config.parallel.tensor_ranks();
  if (ranks > 1 && model.sharding().empty()) {
    throw config.Error("parallel.tensor",
                       fmt::format("{} ranks would each do the same work: models of family {} have "
                                   "no layers that tensor ranks share; leave it out, and all ranks "
                                   "share the data",
                                   ranks, model.family()));
  }
  for (const auto& [name, size] : model.shared_sizes()) {
    const std::string key = "model." + name;
    if (size % ranks == 0) continue;
    const bool vocab = key == "model.vocab", starts = !config.model.init_from.empty();
    const bool follows = vocab && !starts && !config.IsSet(key);
    const bool grows = vocab && starts && !config.lora.asked();
    throw config.Error(
        "parallel.tensor",
        fmt::format("{} ranks cannot share {} {} equally{}; choose a divisor{}", ranks, key, size,
                    follows ? fmt::format(", which is that of data.tokenizer ({})",
                                          config.Origin("data.tokenizer"))
                            : "",
                    follows || grows ? fmt::format(", or pad the vocabulary: model.vocab: {}",
                                                   (size / ranks + 1) * ranks)
                                     : ""));
  }
}

// Warns about keys that send tensors to the host on a machine whose host memory is the device's.
void WarnOfHost(const config::RunConfig& config, std::vector<std::string>& warnings) {
  if (!IsOneMemory(config)) return;
  const auto warn = [&](const char* key, bool asked) {
    if (!asked) return;
    warnings.push_back(
        fmt::format("{}: {}: wins nothing on a CPU, where the host's memory is the same memory",
                    config.Origin(key), key));
  };
  for (const char* key : {"optimizer.place", "memory.weights", "memory.gradients"}) {
    warn(key, config::FindKey(key)->Text(config) == "host");
  }
  warn("checkpointing.offload", !config.checkpointing.offload.empty());
}

// The size of the images that a model reads; nullopt if it reads no images.
std::optional<data::ImageSize> CanvasOf(const models::Model& model) {
  const auto images = model.inputs().find("images");
  if (images == model.inputs().end() || images->second.shape.rank() != 4) return std::nullopt;
  const graph::Shape& shape = images->second.shape;
  return data::ImageSize{shape.dim(1), shape.dim(2), shape.dim(3)};
}

// The image preparation in a file of the folder, applied to the image size of the run's model.
data::ImagePreparation PreparationIn(const std::string& file, const config::RunConfig& config,
                                     const std::string& folder, const data::ImageSize& canvas) {
  config::RunConfig own = config;
  own.model.settings.Remove("image_size");
  const data::ImageSize of_folder = CanvasOf(*ModelBeside(own, folder)).value_or(canvas);
  const data::ImagePreparation preparation = data::ReadPreparation(file, of_folder);
  return of_folder == canvas ? preparation : preparation.WithCanvas(canvas);
}

// Warns if the classifier of the weights has more classes than the data.
void WarnOfIdleClasses(const config::RunConfig& config, std::vector<std::string>& warnings) {
  if (config.IsSet("model.classes")) return;
  const int64_t classes = config.model.settings.IntOr("classes", 0);
  std::optional<int64_t> given;
  try {
    given = config::ClassesOfData(config);
  } catch (const UserError&) {  // opening the data will fail, too
    return;
  }
  if (!given || *given >= classes) return;
  warnings.push_back(fmt::format(
      "{}: model.init_from: its classifier distinguishes {} classes, and the data have {}; "
      "model.classes: {} begins one for these afresh",
      config.Origin("model.init_from"), classes, *given, *given));
}

// Examples are packed by default only if the model keeps the examples of a row separate.
void FollowModel(config::Loaded& loaded) {
  config::RunConfig& config = loaded.config;
  if (config.IsSet("data.packing") || config.data.packing == config::Packing::kConcatenate) return;
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  if (model->inputs().contains("positions")) return;
  if (config.preference.asked()) {
    throw config.Error("preference.loss",
                       fmt::format("models of family {} cannot keep the answers of a pair apart; "
                                   "leave it out, or choose another model",
                                   model->family()));
  }
  config.data.packing = config::Packing::kConcatenate;
  config.data.too_long = config::TooLong::kTruncate;
  if (!config.IsSet("data.too_long")) return;
  loaded.warnings.push_back(fmt::format(
      "{}: data.too_long: has no effect: models of family {} cannot keep examples apart",
      config.Origin("data.too_long"), model->family()));
}

// Passes the settings of preference learning to the model.
void SetPreference(const config::PreferenceConfig& preference, Settings& settings) {
  if (!preference.asked()) return;
  settings.Set(models::kPreferenceLoss, std::string(config::ToString(preference.loss)));
  settings.Set(models::kPreferenceBeta, preference.beta);
  settings.Set(models::kPreferenceSmoothing, preference.label_smoothing);
  settings.Set(models::kPreferenceSftWeight, preference.sft_weight);
  settings.Set(models::kDrawsDropout, !preference.without_dropout());
}

// Notes which settings were taken from elsewhere, and from where.
void NoteTaken(const std::vector<std::string>& taken, const std::string& how,
               config::Loaded& loaded) {
  std::string list;
  for (const std::string& name : taken) {
    const config::Key& key = *config::FindKey("data." + name);
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", key.path, key.Text(loaded.config));
  }
  if (!taken.empty()) loaded.notes.push_back(fmt::format("pictures as {}: {}", how, list));
}

// For a model that generates images: fills in the picture preparation, if the run file leaves it
// open, so that data pictures match the generated images.
void FollowMaker(const std::string& folder, config::Loaded& loaded) {
  config::RunConfig& config = loaded.config;
  const data::SourceKind* const kind = data::FindSource(config.data.source);
  if (kind == nullptr || !kind->follow_maker) return;
  const std::unique_ptr<models::Model> model =
      folder.empty() ? ModelFrom(config) : ModelBeside(config, folder);
  const auto canvas = CanvasOf(*model);
  if (!canvas || !models::MakesImages(*model)) return;
  try {
    const std::vector<std::string> taken =
        kind->follow_maker(config.data.settings, canvas->height, canvas->width);
    NoteTaken(taken, "the model makes them, within ±1", loaded);
  } catch (const SettingError& error) {
    throw config::ErrorOf(config, "data", error);
  }
}

// Takes the preparation of pictures from the folder of the weights, if the run file leaves it open.
void FollowPreparation(const std::string& folder, config::Loaded& loaded) {
  config::RunConfig& config = loaded.config;
  const data::SourceKind* const kind = data::FindSource(config.data.source);
  const std::string file = folder + "/" + data::kPreparationFile;
  std::error_code ignored;
  if (kind == nullptr || !kind->follow || !std::filesystem::exists(file, ignored)) return;
  const auto canvas = CanvasOf(*ModelBeside(config, folder));
  if (!canvas) return;
  try {
    const std::vector<std::string> taken = kind->follow(
        config.data.settings, [&] { return PreparationIn(file, config, folder, *canvas); });
    for (const std::string& name : taken) {
      const auto row = std::ranges::find(kind->settings, name, &Setting::name);
      const std::string why = OutOfRange(*row, config.data.settings.Get(name));
      if (!why.empty()) throw UserError(fmt::format("{}: makes data.{}: {}", file, name, why));
    }
    NoteTaken(taken, file + " says", loaded);
  } catch (const SettingError& error) {
    throw config::ErrorOf(config, "data", error);
  }
}

}  // namespace

config::Loaded LoadRun(const std::string& path, const std::vector<std::string>& sets,
                       const config::RankCount& ranks, const std::string& weights) {
  return LoadRunText(config::ReadFile(path), path, sets, ranks, weights);
}

config::Loaded LoadToRun(const std::string& path, const std::vector<std::string>& sets,
                         const config::RankCount& ranks, const std::string& weights) {
  const std::string text = config::ReadFile(path);  // read once: the path may be a pipe
  RequireCudaBuild(text, path, sets);
  return LoadRunText(text, path, sets, ranks, weights);
}

config::Loaded LoadRunText(const std::string& text, const std::string& name,
                           const std::vector<std::string>& sets, const config::RankCount& ranks,
                           const std::string& weights) {
  config::Loaded loaded = config::LoadText(text, name, sets, ranks, config::ReadFile);
  config::RunConfig& config = loaded.config;
  if (!config.memory.device.empty()) {
    RequireGpu(config.memory.device, config.Origin("memory.device") + ": memory.device:");
  }
  if (!config.debug.act_as.empty() && !ParseComputeCapability(config.debug.act_as)) {
    throw config.Error("debug.act_as", config.debug.act_as +
                                           ": no compute capability that this program has code "
                                           "for; there are " +
                                           ComputeCapabilityNames());
  }
  WarnOfHost(config, loaded.warnings);
  if (!config.model.init_from.empty()) {
    ResolveAdapter(config);
    AddFreshModules(config, *ModelOfFolder(config, config.model.settings));
    WarnOfIdleClasses(config, loaded.warnings);
    config.model.followed_init_from = true;
    config::DeriveBatch(config, ranks.count);
  } else if (config.model.settings.Get("vocab") == SettingValue(int64_t{0})) {
    FollowTokenizer(config);
  }
  FollowModel(loaded);
  const std::string& folder = weights.empty() ? config.model.init_from : weights;
  if (!folder.empty()) FollowPreparation(folder, loaded);
  FollowMaker(folder, loaded);
  loaded.resolved_yaml = config::ToYaml(config);
  return loaded;
}

std::unique_ptr<models::Model> ModelBeside(config::RunConfig config, const std::string& weights) {
  config.model.init_from = weights;
  // The size of the vocabulary is that of the folder, unless the folder is the base of adapters.
  if (!config.lora.asked()) config.model.settings.Remove("vocab");
  for (const std::string& name : config.model.settings.Names()) {
    if (!config::FindKey("model." + name)->Applies(config)) config.model.settings.Remove(name);
  }
  return ModelFrom(config);
}

std::vector<std::string> BlocksOf(const models::Model& model) {
  std::vector<std::string> blocks;
  for (const models::ParameterInfo& parameter : model.parameters()) {
    const std::string_view block = graph::BlockIn(parameter.name);
    if (!block.empty() && std::ranges::find(blocks, block) == blocks.end()) {
      blocks.emplace_back(block);
    }
  }
  return blocks;
}

std::unique_ptr<models::Model> ModelFrom(const config::RunConfig& config) {
  std::unique_ptr<models::Model> model;
  Settings settings = config.model.settings;
  if (!config.data.KeyOfDocumentsApart().empty()) settings.Set(models::kDocumentsApart, true);
  SetPreference(config.preference, settings);
  if (!config.model.init_from.empty()) {
    model = ModelOfFolder(config, settings);
  } else {
    try {
      model = models::MakeModel(*models::FindFamily(config.model.family), settings);
    } catch (const SettingError& error) {
      throw config::ErrorOf(config, "model", error);
    }
  }
  CheckTensorRanks(config, *model);
  return model;
}

data::TextTokens TextTokensFrom(const config::DataConfig& data) {
  return {.begins = data.begin == config::BeginToken::kAuto, .end = data.end};
}

std::unique_ptr<data::Tokenizer> TokenizerFor(const models::Model& model, const std::string& name) {
  std::unique_ptr<data::Tokenizer> tokenizer = data::LoadTokenizer(name);
  const std::optional<models::TextSizes> sizes = model.text_sizes();
  const std::map<std::string, int64_t> bounds = model.input_bounds();
  const auto ids = bounds.find("tokens");
  if (!sizes && ids == bounds.end()) {
    throw UserError(fmt::format("models of family {} read no texts; leave it out", model.family()));
  }
  const int64_t vocab = sizes ? sizes->vocab : ids->second;
  if (tokenizer->vocab_size() > vocab) {
    throw UserError(
        "tokenizer '" + name + "' has ids up to " + std::to_string(tokenizer->vocab_size() - 1) +
        ", beyond the model's vocabulary of " + std::to_string(vocab) +
        "; name the tokenizer that the model was made for, or say model.vocab: " +
        std::to_string(tokenizer->vocab_size()) + " in the file of a run that adds tokens");
  }
  return tokenizer;
}

}  // namespace plimsoll::trainer
