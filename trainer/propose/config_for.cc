#include "trainer/propose/config_for.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/folders.h"
#include "base/message.h"
#include "base/shell_quoted.h"
#include "base/spelling.h"
#include "data/source.h"
#include "formats/model_safetensors.h"
#include "trainer/config/load.h"
#include "trainer/config/owner_keys.h"
#include "trainer/config/shipped.h"
#include "trainer/config/value.h"
#include "trainer/propose/choices.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/look_at_data.h"
#include "trainer/step/adapter.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;
using config::RunConfig;

// KeyOf: the key of a "key=value" in `sets`. IsSet: whether `sets` has a key.
std::string KeyOf(const std::string& set) { return set.substr(0, set.find('=')); }
bool IsSet(const ConfigForCommand& command, const std::string& key) {
  return std::ranges::find(command.sets, key, &KeyOf) != command.sets.end();
}

// The section's keys that --set gives.
std::vector<std::string> KeysOf(const ConfigForCommand& command, const std::string& section) {
  std::vector<std::string> keys;
  for (const std::string& set : command.sets) {
    if (set.starts_with(section + ".")) keys.push_back(KeyOf(set));
  }
  return keys;
}

// Loads the model's file with `more` and `sets`; `sets` override `more`. For a folder, loads a file
// for its weights, whose section `data` is `data`.
config::Loaded LoadWith(const ConfigForCommand& command, const std::string& data,
                        const std::vector<std::string>& more,
                        const std::vector<std::string>& sets) {
  std::vector<std::string> all = more;
  // With 8-bit linear layers, the other ops need a 16-bit type.
  if (IsSet(command, "amp.fp8.recipe")) all.push_back("amp.dtype=bf16");
  all.insert(all.end(), sets.begin(), sets.end());
  if (!IsFolder(command.model)) return LoadRun(FindModelFile(command.model), all);
  const std::string text = fmt::format("model: {{init_from: {}}}\ndata: {{{}}}\n",
                                       config::ScalarText(command.model), data);
  return LoadRunText(text, command.model, all);
}

bool IsBatchKey(const std::string& key) {
  return key == "train.global_batch" || key == "train.global_batch_tokens" ||
         key == "train.micro_batch" || key == "train.accumulate";
}

// Checkpoints allow longer sequences than most samples need.
int64_t SequenceOf(const RunConfig& config) {
  return std::min(config.model.settings.IntOr("max_sequence", 0), kFineTuningSequence);
}

// The overrides for --lora.
std::vector<std::string> LoraSets(const ConfigForCommand& command) {
  if (command.lora_rank == 0) return {};
  return {fmt::format("lora.rank={}", command.lora_rank)};
}

// If the user names data, removes the settings for made-up data from a shipped file: the number of
// classes, and that no samples are held out.
std::vector<std::string> FollowData(const ConfigForCommand& command, const RunConfig& config) {
  std::vector<std::string> dropped;
  if (IsFolder(command.model) || !config::FindShipped(FindModelFile(command.model))) return dropped;
  for (const std::string key : {"model.classes", "train.eval_every"}) {
    if (config.IsSet(key) && !IsSet(command, key)) dropped.push_back(key + "=null");
  }
  return dropped;
}

// The tokenizer in a folder of weights; empty if the folder has none.
std::string TokenizerOf(const std::string& model) {
  std::error_code error;
  for (const char* name : {"tokenizer.json", "vocab.json", "vocab.txt"}) {
    if (fs::exists(fs::path(model) / name, error)) return model;
  }
  return "";
}

// Whether `sets` name the user's own data.
bool NamesData(const ConfigForCommand& command, const RunConfig& config) {
  return !KeysOf(command, "data").empty() && !config::MakesUpData(config);
}

// Refuses --lora for the user's own data over weights that start at random. `sets` are those with
// which the base is loaded.
void RequireWeights(const ConfigForCommand& command, const std::vector<std::string>& sets) {
  if (command.lora_rank == 0 || IsFolder(command.model)) return;
  const RunConfig config = LoadWith(command, "", {}, sets).config;
  if (!config.model.init_from.empty() || config::MakesUpData(config)) return;
  const std::vector<std::string> given = KeysOf(command, "data");
  throw UserError(fmt::format(
      "config --for {}: --lora: this model's weights start at random, and an adapter is of no use "
      "without the weights that it was trained over; to train one on your data, name a Hugging "
      "Face folder: --for FOLDER; to measure time and memory, {}",
      command.model,
      given.empty() ? "add --set data.synthetic=true"
                    : fmt::format("leave out {}", fmt::join(given, " and "))));
}

// Loads the base: the model's file, or a file for a folder's weights, with the user's keys. If the
// user names data, selects the source that has these data keys. For a folder, chooses a usual
// sample length, and made-up samples if no data is named. Includes warnings about data. Throws the
// errors that training would throw.
config::Loaded LoadBase(const ConfigForCommand& command) {
  const bool folder = IsFolder(command.model);
  std::vector<std::string> sets = command.sets;
  std::erase_if(sets, [](const std::string& set) { return IsBatchKey(KeyOf(set)); });
  RequireWeights(command, sets);
  const RunConfig plain = LoadWith(command, "synthetic: true", LoraSets(command), sets).config;
  const std::unique_ptr<models::Model> model = ModelFrom(plain);

  // A folder has no data settings; and --set may give keys of a source other than the model file's.
  std::string source = plain.data.source;
  const std::vector<std::string> given = KeysOf(command, "data");
  if (!IsSet(command, "data.source")) {
    source = SourceFor(*model, given, folder ? "" : source);
    if (source.empty()) {
      throw UserError(
          fmt::format("--set: no data.source that this model reads has {}; see "
                      "plimsoll config --reference",
                      fmt::join(given, " and ")));
    }
  }
  const data::SourceKind* const kind = data::FindSource(source);
  const bool asks = kind == nullptr || kind->made_up == "synthetic";
  std::vector<std::string> more = LoraSets(command);
  if (source != plain.data.source) more.push_back("data.source=" + source);
  const std::string tokenizer = folder ? TokenizerOf(command.model) : "";
  if (IsSet(command, "data.train") && !IsSet(command, "data.tokenizer") && !tokenizer.empty()) {
    more.push_back("data.tokenizer=" + tokenizer);
  }
  if (folder && SequenceOf(plain) > 0) {
    more.push_back(fmt::format("model.sequence={}", SequenceOf(plain)));
  }
  // A batch that the user gives is cut into micro-batches anew, without the base file's
  // micro-batch.
  const bool batch =
      IsSet(command, "train.global_batch") || IsSet(command, "train.global_batch_tokens");
  if (batch && !IsSet(command, "train.micro_batch") && !IsSet(command, "train.accumulate") &&
      !model->sample_coupling().whole_micro_batch()) {
    more.emplace_back("train.micro_batch=auto");
  }
  const std::string data = asks ? "synthetic: true" : "";
  config::Loaded loaded = LoadWith(command, data, more, command.sets);
  if (NamesData(command, loaded.config)) {
    const std::vector<std::string> dropped = FollowData(command, loaded.config);
    std::vector<std::string> all = more;
    all.insert(all.end(), dropped.begin(), dropped.end());
    if (!dropped.empty()) loaded = LoadWith(command, data, all, command.sets);
    LookAtData(loaded, /*started=*/1);
  }
  for (const std::string& set : more) {  // settings that the user did not give
    if (!IsSet(command, KeyOf(set))) loaded.config.origins[KeyOf(set)] = command.model;
  }
  return loaded;
}

// Throws a UserError if an option and a --set give the same value twice.
void RequireOneWay(const ConfigForCommand& command, const std::string& option,
                   const std::string& key, bool given) {
  if (!given || !IsSet(command, key)) return;
  throw UserError(fmt::format("--set: {}: says what {} says; keep one", key, option));
}

// Refuses a --for that is not a model, and a second model in --set.
void CheckModel(const ConfigForCommand& command) {
  if (IsSet(command, "model.init_from")) {
    throw UserError("--set: model.init_from: says what --for says; name the folder there");
  }
  std::error_code error;
  const fs::path folder = command.model;
  if (!IsFolder(command.model) || fs::exists(folder / "config.json", error)) return;
  for (const char* name : {"model", "adapter"}) {
    if (!fs::exists(folder / name, error)) continue;
    throw UserError(fmt::format("--for {}: is a run; name its model, {}", command.model,
                                (folder / "model").string()));
  }
}

void SayWeights(const std::string& folder, Choices& choices) {
  if (formats::HasModelSafetensors(folder)) return;
  choices.Set("model.init_from", config::ScalarText(folder),
              "The folder has no weights yet: its config.json is enough for `plimsoll plan`, and "
              "`plimsoll train` needs model.safetensors.");
}

void SaySequence(const RunConfig& base, Choices& choices) {
  const int64_t most = base.model.settings.IntOr("max_sequence", 0);
  if (most == 0) return;
  const int64_t sequence = base.model.sequence();
  choices.Set("model.sequence", std::to_string(sequence),
              sequence < most
                  ? fmt::format("Tokens of a sample, of the {} that the model allows: more take "
                                "more memory and time.",
                                most)
                  : "All tokens that the model allows in a sample.");
}

// Refuses a model without layers for adapters.
void RequireAdapters(const ConfigForCommand& command, const RunConfig& base, int64_t rank) {
  RunConfig config = base;
  config.lora.rank = rank;
  try {
    (void)LoraFrom(config, *ModelFrom(config));
  } catch (const UserError& error) {
    throw UserError(fmt::format("config --for {}: --lora: {}", command.model, error.what()));
  }
}

// The command as shell text.
std::string CommandText(const ConfigForCommand& command, const Target& target) {
  std::string text = "plimsoll config --for " + ShellQuoted(command.model);
  if (!command.device.empty()) text += " --device " + (target.gpu ? target.key : command.device);
  if (!command.budget.empty()) text += " --budget " + ShellQuoted(command.budget);
  if (command.lora_rank > 0) text += fmt::format(" --lora {}", command.lora_rank);
  for (const std::string& set : command.sets) text += " --set " + ShellQuoted(set);
  return text;
}

// Prints warnings about the user's keys. Other warnings may concern keys that are dropped.
void SayWarnings(const ConfigForCommand& command, std::span<const std::string> warnings) {
  for (const std::string& warning : warnings) {
    const bool asked = std::ranges::any_of(command.sets, [&](const std::string& set) {
      return warning.starts_with(fmt::format("--set: {}:", KeyOf(set)));
    });
    if (asked) PrintWarning(warning);
  }
}

// Checks that the user's data suffices for the chosen batch.
void CheckData(const ConfigForCommand& command, const Choices& choices) {
  if (!NamesData(command, choices.base())) return;
  config::Loaded made = LoadRunText(choices.Text(), "config --for");
  LookAtData(made, /*started=*/1);
}

// The device that the option or the keys give; empty if neither gives one.
std::string DeviceOf(const ConfigForCommand& command, const Choices& choices) {
  RequireOneWay(command, "--device", "memory.device", !command.device.empty());
  RequireOneWay(command, "--device", "device", !command.device.empty());
  if (!command.device.empty()) return command.device;
  const RunConfig& base = choices.base();
  if (choices.IsAsked("memory.device")) return base.memory.device;
  return choices.IsAsked("device") && base.device == config::Device::kCpu ? "cpu" : "";
}

}  // namespace

std::string FindModelFile(const std::string& name) {
  std::error_code error;
  if (fs::is_regular_file(name, error) || config::FindShipped(name) != nullptr) return name;
  constexpr const char* kFolder = "configs/models";
  const std::string path = fmt::format("{}/{}.yaml", kFolder, name);
  if (fs::is_regular_file(path, error) || config::FindShipped(path) != nullptr) return path;
  const std::vector<std::string> names = config::ShippedNames(kFolder);
  const std::string nearest = NearestName(name, names);
  throw UserError(fmt::format(
      "--for {}: no such model; {}", name,
      nearest.empty() ? fmt::format("name a run file or a Hugging Face folder, or one of {}",
                                    fmt::join(names, ", "))
                      : fmt::format("did you mean {}?", nearest)));
}

std::string ConfigFor(const ConfigForCommand& command, const runtime::GpuReport& gpus) {
  RequireOneWay(command, "--budget", "memory.budget", !command.budget.empty());
  RequireOneWay(command, "--lora", "lora.rank", command.lora_rank > 0);
  config::MemorySize size;
  if (!command.budget.empty() && !config::ParseMemorySize(command.budget, &size)) {
    throw UserError(fmt::format("--budget {}: no size; write 24GiB", command.budget));
  }
  CheckModel(command);
  const config::Loaded loaded = LoadBase(command);
  const RunConfig& base = loaded.config;
  SayWarnings(command, loaded.warnings);
  Choices choices(base);
  const Target target = TargetOf(DeviceOf(command, choices), gpus);
  ChooseDevice(target, command.budget, choices);

  const std::unique_ptr<models::Model> model = ModelFrom(base);
  const bool folder = IsFolder(command.model);
  const bool asks = choices.IsAsked("lora.rank") || command.lora_rank > 0;
  const int64_t rank = command.lora_rank > 0 ? command.lora_rank : base.lora.rank;
  if (rank > 0) RequireAdapters(command, base, rank);
  if (folder) SayWeights(command.model, choices);
  if (folder) SaySequence(base, choices);
  if (folder || asks) {
    ChooseFineTuning(*model, rank, choices);
  } else {
    ChooseBatch(*model, target, choices);
  }
  ChooseSampleData(*model, folder ? TokenizerOf(command.model) : "", choices);

  const std::vector<std::string> outlook = ChooseWithinBudget(target, choices);
  CheckData(command, choices);
  std::string header = fmt::format("# {} on {}.\n", command.model, target.name);
  for (const std::string& line : outlook) header += Comment(line, "");
  return fmt::format("{}#   {}\n{}", header, CommandText(command, target), choices.Text());
}

}  // namespace plimsoll::trainer
