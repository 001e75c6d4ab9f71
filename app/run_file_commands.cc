// The commands that take run files: train, plan, ablate, report, config.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "app/commands.h"
#include "base/error.h"
#include "base/message.h"
#include "base/output_file.h"
#include "base/stage.h"
#include "runtime/cuda/gpu_report.h"
#include "runtime/ranks/world.h"
#include "studies/command.h"
#include "trainer/config/json_schema.h"
#include "trainer/config/load.h"
#include "trainer/config/reference.h"
#include "trainer/config/schema.h"
#include "trainer/plan/plan_command.h"
#include "trainer/propose/config_for.h"
#include "trainer/resolve/dtype_warning.h"
#include "trainer/resolve/epochs.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/known_gpus.h"
#include "trainer/save_and_resume/way_on.h"
#include "trainer/train.h"

namespace plimsoll::trainer {
namespace {

// A run file and its overrides: arguments of `train`, `plan` and `config`.
struct RunArguments {
  std::string file;
  std::vector<std::string> sets;

  void AddTo(CLI::App& command) {
    command.add_option("run.yaml", file, "the run file")->required();
    command.add_option("--set", sets, "override a key: --set train.steps=100")
        ->allow_extra_args(false);
  }
  // Loads the run file and prints warnings, on one rank. If `runs`, the configuration is for this
  // device, and the number of steps follows from the data, which is counted.
  config::Loaded Load(const runtime::World& world, bool runs) const {
    const config::RankCount ranks = config::RankCount::Started(world.size());
    config::Loaded loaded = runs ? LoadToRun(file, sets, ranks) : LoadRun(file, sets, ranks);
    if (runs) CountEpochs(loaded, world.size());
    if (runs) WarnOfDtype(loaded);
    if (world.rank() > 0) return loaded;
    for (const std::string& warning : loaded.warnings) {
      PrintWarning(warning);
    }
    for (const std::string& note : loaded.notes) PrintNote(note + "\n");
    return loaded;
  }
};

// A key in which two resolved configurations differ.
struct ConfigDifference {
  std::string key;
  std::string left, right;  // values as in a file; empty: the key does not apply, or is not set
};

config::RunConfig Load(std::string path, const std::vector<std::string>& sets) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path += "/config.yaml";
  return LoadRun(path, sets).config;
}

std::string TextOf(const config::Key& key, const config::RunConfig& config) {
  return key.Applies(config) ? key.Text(config) : "";
}

// The keys in which two configurations differ, in the order of the reference of keys.
std::vector<ConfigDifference> CompareConfigs(const config::RunConfig& left,
                                             const config::RunConfig& right) {
  std::vector<ConfigDifference> differences;
  for (const config::Key& key : config::Schema()) {
    ConfigDifference difference{key.path, TextOf(key, left), TextOf(key, right)};
    if (difference.left != difference.right) differences.push_back(std::move(difference));
  }
  return differences;
}

// Compares two configurations. `left` and `right` are run files or run directories; `sets` override
// keys of both. With `json` the text is a list of objects, otherwise a table. Both end with a
// newline.
std::string ConfigComparison(const std::string& left, const std::string& right,
                             const std::vector<std::string>& sets, bool json) {
  const auto differences = CompareConfigs(Load(left, sets), Load(right, sets));
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    const auto value = [](const std::string& text) {
      return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
    };
    for (const auto& [key, a, b] : differences) {
      list.push_back({{"key", key}, {"left", value(a)}, {"right", value(b)}});
    }
    return list.dump(1) + "\n";
  }
  if (differences.empty()) return fmt::format("{} and {} resolve to the same\n", left, right);
  const auto shown = [](const std::string& text) { return text.empty() ? "-" : text; };
  size_t key_width = 0, left_width = left.size();
  for (const auto& [key, a, b] : differences) {
    key_width = std::max(key_width, key.size());
    left_width = std::max(left_width, shown(a).size());
  }
  std::string text = fmt::format("{:<{}}  {:<{}}  {}\n", "key", key_width, left, left_width, right);
  for (const auto& [key, a, b] : differences) {
    text += fmt::format("{:<{}}  {:<{}}  {}\n", key, key_width, shown(a), left_width, shown(b));
  }
  return text;
}

void PrintReference() {
  std::string text;
  for (const config::ReferencePage& page : config::ReferencePages()) {
    text += (text.empty() ? "" : "\n") + page.text;
  }
  PrintAnswer(text);
}

// Pages of sections that the program doesn't have stay in the folder.
void WriteReference(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw UserError(fmt::format("plimsoll config --reference {}: is no folder", folder));
  }
  for (const config::ReferencePage& page : config::ReferencePages()) {
    const std::filesystem::path path = std::filesystem::path(folder) / page.path;
    std::filesystem::create_directories(path.parent_path());
    WriteWhole(path, page.text);
  }
}

}  // namespace

void AddTrain(CLI::App& app, runtime::World& world, ExitCode& end) {
  struct Options {
    RunArguments run;
    std::string profile, resume;
    bool quiet = false;
  };
  const auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "train a model as a run file says");
  o->run.AddTo(*command);
  CLI::Option* profile =
      command
          ->add_option("--profile", o->profile,
                       "time the nodes of COUNT steps from FIRST on, --profile=FIRST:COUNT: prints "
                       "the longest and writes trace.json")
          ->expected(0, 1);
  command->add_option("--resume", o->resume,
                      "go on from a snapshot: auto (the run's newest, if there is one), or the "
                      "path of a snapshot or run directory");
  command->add_flag("-q,--quiet", o->quiet, "print warnings and errors only");
  command->callback([&world, &end, o, profile] {
    if (o->quiet) SilenceProgress();
    const config::Loaded loaded = [&] {
      const Stage stage("run file");
      return o->run.Load(world, /*runs=*/true);
    }();
    TrainOptions options{.profile = {},
                         .resume = o->resume,
                         .resume_command = ResumeCommand(o->run.file, o->run.sets)};
    if (profile->count() > 0)
      options.profile = ParseProfiledSteps(o->profile, loaded.config.train.StepsToMake());
    end = Train(loaded, world, options);
  });
}

void AddPlan(CLI::App& app, runtime::World& world, ExitCode& end) {
  const auto o = std::make_shared<PlanCommand>();
  CLI::App* command =
      app.add_subcommand("plan", "print the memory plan of a run, without running it");
  command->add_option("run.yaml", o->file, "the run file")->required();
  command->add_option("--set", o->sets, "override a key: --set train.steps=100")
      ->allow_extra_args(false);
  command->add_option("--device", o->device,
                      "for what to plan: " + DeviceNames() + "; default: what the file says");
  command->add_option("--budget", o->budget,
                      "what would be chosen within: 24GiB, 90%, or free - 1GiB");
  command->add_option("--sweep", o->sweep, "the fastest plan for each of this number of budgets")
      ->check(CLI::Range(1, 1000));
  command->add_option("--max", o->largest,
                      "the largest train.micro_batch, model.sequence or model.layers that fits");
  command
      ->add_option(
          "--ranks", o->ranks,
          "what each of this number of ranks takes, by data and tensor ranks and ZeRO stage")
      ->check(CLI::Range(1, 100000));
  command->add_flag("--parameters", o->parameters,
                    "list the parameters instead: their names here and in checkpoints, shapes, "
                    "types, whether they are trained, bytes");
  command->add_flag("--check", o->check,
                    "also compile the step of every rank, and prove that their collectives meet in "
                    "an order that cannot deadlock");
  command->add_flag("--json", o->json, "for programs");
  command->add_option("--html", o->html, "also draw the plan, into this file");
  CLI::Option* diff = command->add_option(
      "--diff", o->diff,
      "what changes from OLD to the run file: run.yaml --diff OLD, a run file, a run directory, or "
      "a plan that --json saved; --set and --budget are for run.yaml alone, --device for both");
  command
      ->add_option("--fail-above", o->fail_above,
                   "exit code 1 when the arena, the host's bytes or the predicted time grew by "
                   "more: --diff OLD --fail-above 1%")
      ->needs(diff);
  command->callback([&world, &end, o] {
    o->started = world.size();
    std::string code;  // the exit code as text, the same on all ranks
    if (world.rank() == 0) code = std::to_string(static_cast<int>(RunPlan(*o)));
    end = static_cast<ExitCode>(std::stoi(world.Broadcast(code)));
  });
}

void AddAblate(CLI::App& app, runtime::World& world) {
  const auto o = std::make_shared<studies::AblateCommand>();
  CLI::App* command = app.add_subcommand("ablate", "compare variations of a run: a study");
  command->add_option("study.yaml", o->file, "the study file");
  command->add_option("--dir", o->dir, "the study's directory, in place of the file's");
  command->add_option("--base", o->base, "the run file to vary, in place of the file's");
  command->add_option("--set", o->sets, "override a key in all rows")->allow_extra_args(false);
  command->add_option("--jobs", o->jobs, "runs side by side, each on GPUs of its own")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--yes", o->yes, "start even many hundreds of runs");
  command->add_flag("--retry-failed", o->retry_failed, "run again what failed before");
  command->add_flag("--list", o->list, "print the rows, and run nothing");
  command->add_flag("--json", o->json, "for programs");
  command->add_flag("--reference", o->reference, "the keys of a study file");
  command->add_option("--columns", o->columns,
                      "of the table, and of the files': name,loss,arena,…");
  command->callback([&world, o] {
    if (world.size() > 1) {
      throw UserError(
          "plimsoll ablate: start it alone: it calls mpirun for the rows of several ranks");
    }
    studies::RunAblate(*o);
  });
}

void AddReport(CLI::App& app) {
  const auto o = std::make_shared<studies::ReportCommand>();
  CLI::App* command = app.add_subcommand("report", "compare runs that are there");
  command->add_option("run", o->runs, "run directories; the first is the baseline")->required();
  command->add_option("--warmup", o->warmup, "first steps of each run that don't count")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  command->add_option("--html", o->html, "also write a page to this file");
  command->add_option("--csv", o->csv, "also write a table to this file");
  command->add_option("--tex", o->tex, "also write a LaTeX table to this file");
  command->add_option("--svg", o->svg, "also draw memory and time into this file");
  command->add_option("--columns", o->columns,
                      "of the table, and of the files': name,loss,arena,…");
  command->add_flag("--json", o->json, "for programs");
  command->callback([o] { studies::RunReport(*o); });
}

void AddConfig(CLI::App& app, runtime::World& world) {
  struct Options {
    RunArguments run;
    ConfigForCommand starting;
    std::string diff;
    std::string reference_folder;
    bool diff_json = false, json_schema = false;
  };
  const auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("config", "print the resolved configuration");
  CLI::Option* file = command->add_option("run.yaml", o->run.file, "the run file");
  command->add_option("--set", o->run.sets, "override a key")->allow_extra_args(false);
  CLI::Option* reference =
      command
          ->add_option("--reference", o->reference_folder,
                       "print all keys; with a folder, write their pages into it instead: "
                       "FOLDER/configuration.md and FOLDER/configuration/")
          ->type_name("[FOLDER]")
          ->expected(0, 1)
          ->excludes(file);
  command->add_flag("--json-schema", o->json_schema, "for editors")->excludes(file);
  CLI::Option* diff =
      command
          ->add_option("--diff", o->diff,
                       "the keys in which another run file or run directory differs")
          ->needs(file);
  command->add_flag("--json", o->diff_json, "the differences, for programs")->needs(diff);
  CLI::Option* model =
      command
          ->add_option("--for", o->starting.model,
                       "write a run file for this model, each choice explained: a name of "
                       "configs/models, a run file, or a Hugging Face folder")
          ->excludes(file);
  command
      ->add_option("--device", o->starting.device,
                   "for what to write it: " + DeviceNames() + "; default: what is here")
      ->needs(model);
  command->add_option("--budget", o->starting.budget, "its memory.budget")->needs(model);
  command
      ->add_option("--lora", o->starting.lora_rank,
                   "train adapters of this rank next to the model's frozen weights")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(model);
  command->callback([&world, o, reference] {
    o->starting.sets = o->run.sets;
    if (reference->count() > 0) {
      if (o->reference_folder.empty()) {
        PrintReference();
      } else if (world.rank() == 0) {
        WriteReference(o->reference_folder);
      }
    } else if (o->json_schema) {
      PrintAnswer(config::JsonSchema());
    } else if (!o->starting.model.empty()) {
      PrintAnswer(ConfigFor(o->starting, runtime::InspectGpus()));
    } else if (!o->diff.empty()) {
      PrintAnswer(ConfigComparison(o->run.file, o->diff, o->run.sets, o->diff_json));
    } else if (o->run.file.empty()) {
      throw UserError(
          "plimsoll config: name a run file, or ask for --for MODEL, --reference or "
          "--json-schema");
    } else {
      PrintAnswer(o->run.Load(world, /*runs=*/false).resolved_yaml);
    }
  });
}

}  // namespace plimsoll::trainer
