#include "trainer/propose/base.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/folders.h"
#include "base/spelling.h"
#include "data/source.h"
#include "trainer/config/owner_keys.h"
#include "trainer/config/shipped.h"
#include "trainer/config/value.h"
#include "trainer/propose/recipe.h"
#include "trainer/propose/sample_data.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/look_at_data.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;
using config::RunConfig;

// The keys of a section that --set gives.
std::vector<std::string> KeysOf(const ConfigForCommand& command, const std::string& section) {
  std::vector<std::string> keys;
  for (const std::string& set : command.sets) {
    if (set.starts_with(section + ".")) keys.push_back(KeyOf(set));
  }
  return keys;
}

// Loads the model's file with `more` and `sets`, later ones before earlier ones; of a folder one
// for its weights, whose section `data` is `data`.
config::Loaded LoadWith(const ConfigForCommand& command, const std::string& data,
                        const std::vector<std::string>& more,
                        const std::vector<std::string>& sets) {
  std::vector<std::string> all = more;
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

// Checkpoints know more positions than most samples have tokens.
int64_t SequenceOf(const RunConfig& config) {
  return std::min(config.model.settings.IntOr("max_sequence", 0), kFineTuningSequence);
}

// --lora, as what is asked of the file.
std::vector<std::string> LoraSets(const ConfigForCommand& command) {
  if (command.lora_rank == 0) return {};
  return {fmt::format("lora.rank={}", command.lora_rank)};
}

// Takes back what a shipped file says of made-up data, where somebody names data: how many classes
// there are, and that nothing is held out.
std::vector<std::string> FollowData(const ConfigForCommand& command, const RunConfig& config) {
  std::vector<std::string> dropped;
  if (IsFolder(command.model) || !config::FindShipped(FindModelFile(command.model))) return dropped;
  for (const std::string key : {"model.classes", "train.eval_every"}) {
    if (config.IsSet(key) && !IsSet(command, key)) dropped.push_back(key + "=null");
  }
  return dropped;
}

}  // namespace

std::string KeyOf(const std::string& set) { return set.substr(0, set.find('=')); }

bool IsSet(const ConfigForCommand& command, const std::string& key) {
  return std::ranges::find(command.sets, key, &KeyOf) != command.sets.end();
}

std::string TokenizerOf(const std::string& model) {
  std::error_code error;
  for (const char* name : {"tokenizer.json", "vocab.json", "vocab.txt"}) {
    if (fs::exists(fs::path(model) / name, error)) return model;
  }
  return "";
}

bool NamesData(const ConfigForCommand& command, const RunConfig& config) {
  return !KeysOf(command, "data").empty() && !config::MakesUpData(config);
}

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

config::Loaded LoadBase(const ConfigForCommand& command) {
  const bool folder = IsFolder(command.model);
  std::vector<std::string> sets = command.sets;
  std::erase_if(sets, [](const std::string& set) { return IsBatchKey(KeyOf(set)); });
  const RunConfig plain = LoadWith(command, "synthetic: true", LoraSets(command), sets).config;
  const std::unique_ptr<models::Model> model = ModelFrom(plain);

  // A folder has no data, and --set may give keys of another source than the model's file has.
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
  // The batch that is asked for is cut anew.
  const bool batch =
      IsSet(command, "train.global_batch") || IsSet(command, "train.global_batch_tokens");
  if (batch && !IsSet(command, "train.micro_batch") && !IsSet(command, "train.accumulate") &&
      model->coupled_samples() != 0) {
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
  for (const std::string& set : more) {  // which nobody asked for
    if (!IsSet(command, KeyOf(set))) loaded.config.origins[KeyOf(set)] = command.model;
  }
  return loaded;
}

}  // namespace plimsoll::trainer
