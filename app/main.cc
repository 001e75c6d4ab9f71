// The command line: one class, with a function for each command that defines its options; those of
// `data` are in data_command_line.h.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "app/compare_configs.h"
#include "app/data_command_line.h"
#include "app/info.h"
#include "app/list_runs.h"
#include "base/error.h"
#include "base/message.h"
#include "base/spelling.h"
#include "base/stage.h"
#include "base/terminal.h"
#include "base/version.h"
#include "runtime/cuda/gpu_report.h"
#include "runtime/ranks/own_gpu.h"
#include "runtime/ranks/world.h"
#include "studies/command.h"
#include "trainer/config/load.h"
#include "trainer/config/reference.h"
#include "trainer/language/eval.h"
#include "trainer/language/generate.h"
#include "trainer/language/predict.h"
#include "trainer/plan/plan_command.h"
#include "trainer/propose/config_for.h"
#include "trainer/save_and_resume/export.h"
#include "trainer/save_and_resume/inspect.h"
#include "trainer/save_and_resume/way_on.h"
#include "trainer/settle/epochs.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/known_gpus.h"
#include "trainer/train.h"

namespace plimsoll::trainer {
namespace {

constexpr std::string_view kNoMemory =
    "the system gives no more memory (free -h; ulimit -v; a container's limit)";

// Ends the process where memory is missing: unwinding would ask for more, at places that may not
// fail. Takes none itself.
[[noreturn]] void EndWithoutMemory() {
  for (const std::string_view text : {kNoMemory, std::string_view("\n")}) {
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) break;
  }
  _exit(static_cast<int>(ExitCode::kInternal));
}

// A run file and its overrides, as for `train`, `plan` and `config`.
struct RunArguments {
  std::string file;
  std::vector<std::string> sets;

  void AddTo(CLI::App& command) {
    command.add_option("run.yaml", file, "the run file")->required();
    command.add_option("--set", sets, "override a key: --set train.steps=100")
        ->allow_extra_args(false);
  }
  // Prints the warnings, on one rank. `runs`: on this device, and for as many steps as follow from
  // the data, which is counted.
  config::Loaded Load(const runtime::World& world, bool runs) const {
    const config::RankCount ranks = config::RankCount::Started(world.size());
    config::Loaded loaded = runs ? LoadToRun(file, sets, ranks) : LoadRun(file, sets, ranks);
    if (runs) CountEpochs(loaded, world.size());
    if (world.rank() > 0) return loaded;
    for (const std::string& warning : loaded.warnings) {
      PrintWarning(warning);
    }
    for (const std::string& note : loaded.notes) PrintNote(note + "\n");
    return loaded;
  }
};

class CommandLine {
 public:
  explicit CommandLine(runtime::World& world) : world_(world) {
    app_.require_subcommand(1);
    app_.set_version_flag("--version", fmt::format("plimsoll {} ({})", Version(), Commit()));
    AddTrain();
    AddPlan();
    AddAblate();
    AddReport();
    AddEval();
    AddGenerate();
    AddPredict();
    AddInspect();
    AddExport();
    data_.AddTo(app_);
    AddConfig();
    AddRuns();
    AddInfo();
    AddWords();
    RefuseEmptyNames(app_);
  }

  // Returns the exit code.
  int Run(int argc, char** argv) {
    try {
      std::vector<std::string> arguments = Arguments(argc, argv);
      const std::string command = arguments.empty() ? "" : arguments.front();
      RefuseUnknownCommand(command);
      RequireSameCommand(command);
      std::ranges::reverse(arguments);  // CLI11 expects them so
      app_.parse(arguments);
      if (end_ != ExitCode::kDone && world_.size() > 1) {
        world_.Barrier();  // all have printed their output
        world_.Abort(static_cast<int>(end_));
      }
      return static_cast<int>(end_);
    } catch (const CLI::ParseError& error) {
      return End(error);
    } catch (const UserError& error) {
      return Fail(error.what(), error.code());
    } catch (const std::bad_alloc&) {  // of a library that asks for memory by itself
      return Fail(std::string(kNoMemory), ExitCode::kInternal);
    } catch (const std::system_error& error) {
      const bool threads = error.code() == std::errc::resource_unavailable_try_again;
      return Fail(threads
                      ? "the system starts no more threads (ulimit -u and -v; a container's limit)"
                      : error.what(),
                  ExitCode::kInternal);
    } catch (const std::exception& error) {
      return Fail(fmt::format("internal error: {}", error.what()), ExitCode::kInternal);
    }
  }

 private:
  // A shell's variable without a value would mean the folder where the program was started.
  static void RefuseEmptyNames(CLI::App& app) {
    for (CLI::Option* option : app.get_options()) {
      if (!option->get_positional() && option->get_name() != "--out") continue;
      option->check(CLI::Validator(
          [](const std::string& value) { return value.empty() ? "is empty; name one" : ""; }, ""));
    }
    for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
      RefuseEmptyNames(*command);
    }
  }

  // Help and version also end here, with code 0.
  int End(const CLI::ParseError& error) const {
    std::ostringstream answer, message;
    if (app_.exit(error, answer, message) != 0) {
      std::string text = message.str();
      while (text.ends_with('\n')) text.pop_back();
      return Fail(text, ExitCode::kUserMistake);
    }
    try {
      PrintAnswer(answer.str());
    } catch (const UserError& problem) {
      return Fail(problem.what(), problem.code());
    }
    return static_cast<int>(ExitCode::kDone);
  }

  // The message without the middle of words that no one reads to their end, such as a value that
  // CLI11 quotes.
  static std::string WithShortWords(const std::string& message) {
    constexpr size_t kLong = 300;
    std::string text, word;
    for (const char c : message + ' ') {
      if (c != ' ' && c != '\n') {
        word += c;
        continue;
      }
      text += (word.size() > kLong ? Shortened(word) : word) + c;
      word.clear();
    }
    text.pop_back();
    return text;
  }

  // With several ranks, the first rank that ends ends all of them. An error that is the same on all
  // ranks is printed once: the others give rank 0 the time to print it.
  int Fail(const std::string& message, ExitCode code) const {
    const int rank = world_.rank();
    if (rank > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    PrintError(fmt::format("{}{}", rank > 0 ? fmt::format("rank {}: ", rank) : "",
                           WithShortWords(message)));
    if (world_.size() > 1) {
      // Output that is still in a pipe when its rank ends is lost.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      world_.Abort(static_cast<int>(code));
    }
    return static_cast<int>(code);
  }

  void RefuseUnknownCommand(const std::string& name) const {
    if (name.empty() || name.starts_with('-')) return;
    std::string known;
    for (const CLI::App* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
      if (command->get_name() == name) return;
      known += (known.empty() ? "" : ", ") + command->get_name();
    }
    throw UserError(fmt::format("plimsoll {}: unknown command; there are {}", name, known));
  }

  // Whether an argument is a key and its value, as they stand behind --set.
  static bool IsSetting(std::string_view argument) {
    const size_t end = argument.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.");
    return end != 0 && end != argument.npos && argument[end] == '=';
  }

  // The words `help` and `version`, before a command or alone, stand for its flags, and --set may
  // have several values: each gets a --set of its own.
  static std::vector<std::string> Arguments(int argc, char** argv) {
    std::vector<std::string> arguments;
    bool sets = false;
    for (const std::string_view argument : std::span(argv + std::min(argc, 1), argv + argc)) {
      if (sets && IsSetting(argument) && arguments.back() != "--set") arguments.push_back("--set");
      sets = argument == "--set" || (sets && IsSetting(argument));
      arguments.emplace_back(argument);
    }
    const std::string word = arguments.empty() ? "" : arguments.front();
    if (word == "help" || word == "version") {
      arguments.erase(arguments.begin());
      arguments.push_back("--" + word);
    }
    return arguments;
  }

  // Ranks with different commands would wait for each other for ever. Only `train` needs the other
  // ranks afterwards.
  void RequireSameCommand(const std::string& command) const {
    const std::vector<std::string> all = world_.Gather(command);
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      throw UserError(fmt::format(
          "mpirun: rank 0 was started as `plimsoll {}` and rank {} as `plimsoll {}`; start every "
          "rank with the same command",
          all[0], rank, all[rank]));
    }
    if (command != "train") world_.StopWatching();
  }

  void AddTrain() {
    CLI::App* command = app_.add_subcommand("train", "train a model as a run file says");
    train_.AddTo(*command);
    CLI::Option* profile =
        command
            ->add_option(
                "--profile", profile_,
                "time the nodes of COUNT steps from FIRST on, --profile=FIRST:COUNT: prints "
                "the longest and writes trace.json")
            ->expected(0, 1);
    command->add_option("--resume", resume_,
                        "go on from a snapshot: auto (the run's newest, if there is one), or the "
                        "path of a snapshot or run directory");
    command->add_flag("-q,--quiet", quiet_, "print warnings and errors only");
    command->callback([this, profile] {
      if (quiet_) SilenceProgress();
      const config::Loaded loaded = [this] {
        const Stage stage("run file");
        return train_.Load(world_, /*runs=*/true);
      }();
      TrainOptions options{.profile = {},
                           .resume = resume_,
                           .resume_command = ResumeCommand(train_.file, train_.sets)};
      if (profile->count() > 0)
        options.profile = ParseProfiledSteps(profile_, loaded.config.train.StepsToMake());
      end_ = Train(loaded, world_, options);
    });
  }

  void AddPlan() {
    CLI::App* command =
        app_.add_subcommand("plan", "print the memory plan of a run, without running it");
    command->add_option("run.yaml", plan_.file, "the run file")->required();
    command->add_option("--set", plan_.sets, "override a key: --set train.steps=100")
        ->allow_extra_args(false);
    command->add_option("--device", plan_.device,
                        "for what to plan: " + DeviceNames() + "; default: what the file says");
    command->add_option("--budget", plan_.budget,
                        "what would be chosen within: 24GiB, 90%, or free - 1GiB");
    command->add_option("--sweep", plan_.sweep, "the fastest plan for each of so many budgets")
        ->check(CLI::Range(1, 1000));
    command->add_option("--max", plan_.largest,
                        "the largest train.micro_batch, model.sequence or model.layers that fits");
    command
        ->add_option("--ranks", plan_.ranks,
                     "what each of so many takes, by data and tensor ranks and ZeRO stage")
        ->check(CLI::Range(1, 100000));
    command->add_flag("--parameters", plan_.parameters,
                      "list the parameters instead: their names here and in checkpoints, shapes, "
                      "types, whether they are trained, bytes");
    command->add_flag("--json", plan_.json, "for programs");
    command->add_option("--html", plan_.html, "also draw the plan, into this file");
    command->callback([this] {
      plan_.started = world_.size();
      std::string code;  // all ranks end with it
      if (world_.rank() == 0) code = std::to_string(static_cast<int>(RunPlan(plan_)));
      end_ = static_cast<ExitCode>(std::stoi(world_.Broadcast(code)));
    });
  }

  void AddAblate() {
    CLI::App* command = app_.add_subcommand("ablate", "compare variations of a run: a study");
    command->add_option("study.yaml", ablate_.file, "the study file");
    command->add_option("--dir", ablate_.dir, "the study's directory, in place of the file's");
    command->add_option("--base", ablate_.base, "the run file to vary, in place of the file's");
    command->add_option("--set", ablate_.sets, "override a key in all rows")
        ->allow_extra_args(false);
    command->add_option("--jobs", ablate_.jobs, "runs side by side, each on GPUs of its own")
        ->check(CLI::Range(1, 1024));
    command->add_flag("--yes", ablate_.yes, "start even many hundreds of runs");
    command->add_flag("--retry-failed", ablate_.retry_failed, "run again what failed before");
    command->add_flag("--list", ablate_.list, "print the rows, and run nothing");
    command->add_flag("--json", ablate_.json, "for programs");
    command->add_flag("--reference", ablate_.reference, "the keys of a study file");
    command->add_option("--columns", ablate_.columns,
                        "of the table, and of the files': name,loss,arena,…");
    command->callback([this] {
      if (world_.size() > 1) {
        throw UserError(
            "plimsoll ablate: start it alone: it calls mpirun for the rows of several ranks");
      }
      studies::RunAblate(ablate_);
    });
  }

  void AddReport() {
    CLI::App* command = app_.add_subcommand("report", "compare runs that are there");
    command->add_option("run", report_.runs, "run directories; the first is the baseline")
        ->required();
    command->add_option("--warmup", report_.warmup, "first steps of each run that don't count")
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
    command->add_option("--html", report_.html, "also write a page to this file");
    command->add_option("--csv", report_.csv, "also write a table to this file");
    command->add_option("--tex", report_.tex, "also write a LaTeX table to this file");
    command->add_option("--svg", report_.svg, "also draw memory and time into this file");
    command->add_option("--columns", report_.columns,
                        "of the table, and of the files': name,loss,arena,…");
    command->add_flag("--json", report_.json, "for programs");
    command->callback([this] { studies::RunReport(report_); });
  }

  // Adds the options that choose among a run's weights.
  static void AddChoice(CLI::App& command, WeightChoice& choice) {
    CLI::Option* step = command.add_option(
        "--step", choice.step,
        "the run's snapshot after so many steps; default: what it wrote last, model/, adapter/ or "
        "a snapshot");
    command.add_flag("--best", choice.best, "the run's snapshot of its best evaluation")
        ->excludes(step);
    command.add_flag("--ema", choice.ema,
                     "the averages of the weights (optimizer.ema) instead of the weights");
  }

  void AddEval() {
    CLI::App* command = app_.add_subcommand("eval", "the loss of a trained model on held-out data");
    command
        ->add_option("model", eval_.folder, "a run directory, a snapshot or a Hugging Face folder")
        ->required();
    AddChoice(*command, eval_.choice);
    command->add_option("--data", eval_.data,
                        "token files (*.bin) or text, or shell patterns of them; default: what "
                        "the run held out");
    command->add_option("--run-file", eval_.run_file,
                        "beside a Hugging Face folder: a run file whose held-out data to take");
    command->add_option_function<std::string>(
        "--adapter",
        [this](const std::string& value) { eval_.sets.push_back("lora.init_from=" + value); },
        "an adapter in PEFT's form, beside a Hugging Face folder");
    command->add_option("--dtype", eval_.dtype, "of weights and activations: fp32, bf16 or fp16");
    command->add_option("--tokenizer", eval_.tokenizer,
                        "of the text of --data: byte, or a tokenizer's path");
    command->add_option("--batch", eval_.batch, "sequences at a time, at most as many as there are")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
    command->add_option_function<std::string>(
        "--sequence",
        [this](const std::string& value) { eval_.sets.push_back("model.sequence=" + value); },
        "tokens per sequence");
    command->add_option_function<std::string>(
        "--limit",
        [this](const std::string& value) { eval_.sets.push_back("train.eval_sequences=" + value); },
        "held-out sequences to evaluate; 0: all; default: those that the run evaluates");
    command->add_flag("--json", eval_.json, "for programs");
    command->callback([this] { RunEval(eval_); });
  }

  void AddPredict() {
    CLI::App* command = app_.add_subcommand(
        "predict", "the classes of pictures, texts or voxels, or the words behind [MASK]");
    command
        ->add_option("model", predict_.folder,
                     "a run directory, a snapshot or a Hugging Face folder")
        ->required();
    command->add_option("input", predict_.inputs,
                        "files, or folders of them: pictures (Netpbm's P5 and P6, of MNIST's or "
                        "CIFAR-10's form), volumes (NIfTI), or texts, one or a pair with a tab "
                        "between a line");
    AddChoice(*command, predict_.choice);
    command->add_option("--text", predict_.texts, "a text, in place of files; may be repeated")
        ->allow_extra_args(false);
    command->add_option("--run-file", predict_.run_file,
                        "beside a Hugging Face folder: a run file that says how data is prepared");
    command->add_option("--dtype", predict_.dtype,
                        "of weights and activations: fp32, bf16 or fp16");
    command->add_option("--tokenizer", predict_.tokenizer, "of texts: a tokenizer's path");
    command->add_option("--batch", predict_.batch, "inputs at a time, at most as many as there are")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
    command->add_option("--to", predict_.to, "of volumes: the folder to write their classes to");
    command->add_flag("--overwrite", predict_.overwrite,
                      "replace what that folder holds of other weights");
    command
        ->add_option("--overlap", predict_.overlap,
                     "of the windows that cover a volume, a part of their sides; default: "
                     "data.overlap")
        ->check(CLI::Range(0.0, 0.99));
    command->add_option("--top", predict_.top, "candidates to show")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
    command->add_option("--features", predict_.features,
                        "of pictures: the file, NumPy's .npy, to write the features to that the "
                        "classifier's last layer reads");
    command->add_flag("--json", predict_.json, "for programs: an object a line");
    command->callback([this] { RunPredict(predict_); });
  }

  void AddGenerate() {
    CLI::App* command = app_.add_subcommand(
        "generate", "continue a text with a trained model, or make images with one");
    command
        ->add_option("model", generate_.folder,
                     "a run directory, a snapshot or a Hugging Face folder")
        ->required();
    AddChoice(*command, generate_.choice);
    auto sample = [&](const char* flag, const char* key, const char* help) {
      command->add_option_function<std::string>(
          flag,
          [this, key](const std::string& value) {
            generate_.sets.push_back(fmt::format("sample.{}={}", key, value));
          },
          help);
    };
    sample("--tokens", "tokens", "how many to draw");
    sample("--temperature", "temperature", "0: always the likeliest token");
    sample("--top-k", "top_k", "draw among the k likeliest; 0: all");
    sample("--top-p", "top_p",
           "draw among the fewest likeliest that together have this probability; 1: all");
    sample("--seed", "seed", "of the draws, or of the images' noise");
    sample("--count", "count", "texts to draw");
    command->add_option_function<std::string>(
        "--sequence",
        [this](const std::string& value) { generate_.sets.push_back("model.sequence=" + value); },
        "tokens that are looked back on");
    command->add_option_function<std::string>(
        "--prompt", [this](const std::string& prompt) { generate_.prompt = prompt; },
        "text to continue");
    command
        ->add_option("--stop", generate_.stop,
                     "a text that ends the continuation where it would begin; may be repeated")
        ->allow_extra_args(false);
    command->add_option_function<std::string>(
        "--adapter",
        [this](const std::string& value) { generate_.sets.push_back("lora.init_from=" + value); },
        "an adapter in PEFT's form, beside a Hugging Face folder");
    command->add_option("--dtype", generate_.dtype,
                        "of weights and activations: fp32, bf16 or fp16");
    command->add_option("--tokenizer", generate_.tokenizer, "byte, or a tokenizer's path");
    command->add_option("--images", generate_.images, "of a model that makes images: how many")
        ->check(CLI::Range(int64_t{1}, int64_t{999'999}));
    command->add_option("--to", generate_.to, "the folder to write the images to, as PNG files");
    command->add_flag("--overwrite", generate_.overwrite, "replace the images that folder holds");
    command
        ->add_option("--batch", generate_.batch,
                     "images at a time (64): batch norms take their statistics together")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
    command->callback([this, command] {
      for (const char* option : {"--tokens", "--temperature", "--top-k", "--top-p", "--count",
                                 "--sequence", "--prompt", "--stop", "--tokenizer"}) {
        if (command->count(option) > 0) generate_.for_texts.emplace_back(option);
      }
      RunGenerate(generate_);
    });
  }

  void AddInspect() {
    CLI::App* command =
        app_.add_subcommand("inspect", "what a snapshot holds, and whether it is whole");
    command->add_option("snapshot", inspected_, "a snapshot, or a run directory for all of its")
        ->required();
    command->callback([this] { RunInspect(inspected_); });
  }

  void AddExport() {
    CLI::App* command =
        app_.add_subcommand("export",
                            "write a run's weights for Hugging Face's transformers, or its "
                            "adapter for PEFT");
    command->add_option("run", export_.run, "a run directory, or one of its snapshots")->required();
    command->add_option("--to", export_.to, "the folder to write")->required();
    AddChoice(*command, export_.choice);
    command->add_flag("--merge", export_.merge,
                      "write whole weights, with the run's adapter merged into them");
    command->add_option("--dtype", export_.dtype, "of the weights: fp32, bf16 or fp16");
    command->add_option("--tokenizer", export_.tokenizer,
                        "that goes with them, in place of the run's: byte, or a tokenizer's path");
    command->add_flag("--overwrite", export_.overwrite, "replace the model that the folder holds");
    command->callback([this] { RunExport(export_); });
  }

  void AddConfig() {
    CLI::App* command = app_.add_subcommand("config", "print the resolved configuration");
    CLI::Option* file = command->add_option("run.yaml", config_.file, "the run file");
    command->add_option("--set", config_.sets, "override a key")->allow_extra_args(false);
    command->add_flag("--reference", reference_, "all keys, as docs/configuration.md")
        ->excludes(file);
    command->add_flag("--json-schema", json_schema_, "for editors")->excludes(file);
    CLI::Option* diff =
        command
            ->add_option("--diff", diff_,
                         "the keys in which another run file or run directory differs")
            ->needs(file);
    command->add_flag("--json", diff_json_, "the differences, for programs")->needs(diff);
    CLI::Option* model =
        command
            ->add_option("--for", starting_.model,
                         "write a run file for this model, each choice explained: a name of "
                         "configs/models, a run file, or a Hugging Face folder")
            ->excludes(file);
    command
        ->add_option("--device", starting_.device,
                     "for what to write it: " + DeviceNames() + "; default: what is here")
        ->needs(model);
    command->add_option("--budget", starting_.budget, "its memory.budget")->needs(model);
    command
        ->add_option("--lora", starting_.lora_rank,
                     "train adapters of this rank beside the model's frozen weights")
        ->check(CLI::Range(1, 1 << 20))
        ->needs(model);
    command->callback([this] {
      starting_.sets = config_.sets;
      if (reference_) {
        PrintAnswer(config::ReferenceMarkdown());
      } else if (json_schema_) {
        PrintAnswer(config::JsonSchema());
      } else if (!starting_.model.empty()) {
        PrintAnswer(ConfigFor(starting_, runtime::InspectGpus()));
      } else if (!diff_.empty()) {
        PrintAnswer(ConfigComparison(config_.file, diff_, config_.sets, diff_json_));
      } else if (config_.file.empty()) {
        throw UserError(
            "plimsoll config: name a run file, or ask for --for MODEL, --reference or "
            "--json-schema");
      } else {
        PrintAnswer(config_.Load(world_, /*runs=*/false).resolved_yaml);
      }
    });
  }

  void AddRuns() {
    CLI::App* command = app_.add_subcommand("runs", "list runs, the newest first");
    command->add_option("folder", runs_folder_, "where they lie")->capture_default_str();
    command->add_flag("--json", runs_json_, "for programs");
    command->callback([this] {
      const std::vector<ListedRun> runs = ListRuns(runs_folder_);
      const Terminal terminal = Terminal::Of(STDOUT_FILENO);
      PrintAnswer(runs_json_ ? RunsJson(runs)
                             : RunsTable(runs, terminal.exists ? terminal.columns : 0));
    });
  }

  void AddInfo() {
    CLI::App* command =
        app_.add_subcommand("info", "this build, this machine, its GPUs, and what is wrong");
    command->add_flag("--json", info_json_, "for programs");
    command->callback([this] { RunInfo(info_json_); });
  }

  // For the list of commands; see Arguments().
  void AddWords() {
    app_.add_subcommand("help", "what plimsoll, or one of its commands, can do: help train");
    app_.add_subcommand("version", "this version and its commit");
  }

  runtime::World& world_;
  CLI::App app_{"Plimsoll trains deep networks inside a stated memory budget.", "plimsoll"};
  RunArguments train_, config_;
  std::string profile_, resume_;
  ExitCode end_ = ExitCode::kDone;
  PlanCommand plan_;
  studies::AblateCommand ablate_;
  studies::ReportCommand report_;
  EvalCommand eval_;
  ExportCommand export_;
  ConfigForCommand starting_;
  GenerateCommand generate_;
  PredictCommand predict_;
  DataCommandLine data_;
  std::string diff_, runs_folder_ = "runs";
  bool diff_json_ = false, runs_json_ = false, quiet_ = false;
  std::string inspected_;
  bool reference_ = false, json_schema_ = false, info_json_ = false;
};

}  // namespace
}  // namespace plimsoll::trainer

int main(int argc, char** argv) {
  plimsoll::ReserveStandardStreams();
  std::set_new_handler(&plimsoll::trainer::EndWithoutMemory);
  // `bazel run` starts programs in another folder; paths are relative to the caller's.
  if (const char* directory = std::getenv("BUILD_WORKING_DIRECTORY")) {
    std::error_code error;
    std::filesystem::current_path(directory, error);
  }
  // Exceeding a limit on file sizes is then an error like a full disk, which names the file.
  std::signal(SIGXFSZ, SIG_IGN);
  // A training continues when nobody reads its output any more.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    // The timeout until a run file sets it.
    plimsoll::runtime::World world(plimsoll::config::ParallelConfig{}.timeout);
    plimsoll::runtime::ChooseOwnGpu(world.local_rank(), world.local_size());
    // Only rank 0 prints; the others have log files once there is a folder for them.
    if (world.rank() > 0) plimsoll::SendOutputTo("/dev/null", /*append=*/true);
    return plimsoll::trainer::CommandLine(world).Run(argc, argv);
  } catch (const std::exception& error) {
    plimsoll::PrintError(error.what());
    return static_cast<int>(plimsoll::ExitCode::kInternal);
  }
}
