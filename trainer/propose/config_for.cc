#include "trainer/propose/config_for.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/folders.h"
#include "base/message.h"
#include "base/shell_quoted.h"
#include "formats/model_safetensors.h"
#include "trainer/config/load.h"
#include "trainer/config/value.h"
#include "trainer/propose/choices.h"
#include "trainer/propose/recipe.h"
#include "trainer/propose/sample_data.h"
#include "trainer/propose/target.h"
#include "trainer/propose/within_budget.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/look_at_data.h"
#include "trainer/step/adapter.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;
using config::RunConfig;

// One thing is said once.
void RequireOneWay(const ConfigForCommand& command, const std::string& option,
                   const std::string& key, bool given) {
  if (!given || !IsSet(command, key)) return;
  throw UserError(fmt::format("--set: {}: says what {} says; keep one", key, option));
}

// Refuses what is no model, or another one than the command says.
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

// Refuses a model that has no layers for adapters.
void RequireAdapters(const ConfigForCommand& command, const RunConfig& base, int64_t rank) {
  RunConfig config = base;
  config.lora.rank = rank;
  try {
    (void)LoraFrom(config, *ModelFrom(config));
  } catch (const UserError& error) {
    throw UserError(fmt::format("config --for {}: --lora: {}", command.model, error.what()));
  }
}

// The command, as a shell takes it.
std::string CommandText(const ConfigForCommand& command, const Target& target) {
  std::string text = "plimsoll config --for " + ShellQuoted(command.model);
  if (!command.device.empty()) text += " --device " + (target.gpu ? target.key : command.device);
  if (!command.budget.empty()) text += " --budget " + ShellQuoted(command.budget);
  if (command.lora_rank > 0) text += fmt::format(" --lora {}", command.lora_rank);
  for (const std::string& set : command.sets) text += " --set " + ShellQuoted(set);
  return text;
}

// Of what somebody asks for; others may be of keys that are dropped.
void SayWarnings(const ConfigForCommand& command, std::span<const std::string> warnings) {
  for (const std::string& warning : warnings) {
    const bool asked = std::ranges::any_of(command.sets, [&](const std::string& set) {
      return warning.starts_with(fmt::format("--set: {}:", KeyOf(set)));
    });
    if (asked) PrintWarning(warning);
  }
}

// The data that somebody names must do for the batch that is chosen.
void CheckData(const ConfigForCommand& command, const Choices& choices) {
  if (!NamesData(command, choices.base())) return;
  config::Loaded made = LoadRunText(choices.Text(), "config --for");
  LookAtData(made, /*started=*/1);
}

// The device that is asked for, by the option or the keys; empty: by neither.
std::string DeviceOf(const ConfigForCommand& command, const Choices& choices) {
  RequireOneWay(command, "--device", "memory.device", !command.device.empty());
  RequireOneWay(command, "--device", "device", !command.device.empty());
  if (!command.device.empty()) return command.device;
  const RunConfig& base = choices.base();
  if (choices.IsAsked("memory.device")) return base.memory.device;
  return choices.IsAsked("device") && base.device == config::Device::kCpu ? "cpu" : "";
}

}  // namespace

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
