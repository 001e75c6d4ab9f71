// The commands that read trained weights: eval, generate, predict, inspect, export.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "app/commands.h"
#include "trainer/language/eval.h"
#include "trainer/language/generate.h"
#include "trainer/language/predict.h"
#include "trainer/save_and_resume/export.h"
#include "trainer/save_and_resume/inspect.h"

namespace plimsoll::trainer {
namespace {

// Adds the options that select one of a run's sets of weights.
void AddChoice(CLI::App& command, WeightChoice& choice) {
  CLI::Option* step = command.add_option("--step", choice.step,
                                         "the run's snapshot after this number of steps; default: "
                                         "what it wrote last, model/, adapter/ or "
                                         "a snapshot");
  command.add_flag("--best", choice.best, "the run's snapshot of its best evaluation")
      ->excludes(step);
  command.add_flag("--ema", choice.ema,
                   "the averages of the weights (optimizer.ema) instead of the weights");
}

}  // namespace

void AddEval(CLI::App& app) {
  const auto o = std::make_shared<EvalCommand>();
  CLI::App* command = app.add_subcommand("eval", "the loss of a trained model on held-out data");
  command->add_option("model", o->folder, "a run directory, a snapshot or a Hugging Face folder")
      ->required();
  AddChoice(*command, o->choice);
  command->add_option("--data", o->data,
                      "token files (*.bin) or text, or shell patterns of them; default: what "
                      "the run held out");
  command->add_option("--run-file", o->run_file,
                      "for a Hugging Face folder: a run file whose held-out data to take");
  command->add_option_function<std::string>(
      "--adapter", [o](const std::string& value) { o->sets.push_back("lora.init_from=" + value); },
      "an adapter in PEFT's form, for a Hugging Face folder");
  command->add_option("--dtype", o->dtype, "of weights and activations: fp32, bf16 or fp16");
  command->add_option("--tokenizer", o->tokenizer,
                      "of the text of --data: byte, or a tokenizer's path");
  command->add_option("--batch", o->batch, "sequences at a time, at most as many as there are")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option_function<std::string>(
      "--sequence", [o](const std::string& value) { o->sets.push_back("model.sequence=" + value); },
      "tokens per sequence");
  command->add_option_function<std::string>(
      "--limit",
      [o](const std::string& value) { o->sets.push_back("train.eval_sequences=" + value); },
      "held-out sequences to evaluate; 0: all; default: those that the run evaluates");
  command->add_flag("--json", o->json, "for programs");
  command->callback([o] { RunEval(*o); });
}

void AddGenerate(CLI::App& app) {
  const auto o = std::make_shared<GenerateCommand>();
  CLI::App* command = app.add_subcommand(
      "generate", "continue a text with a trained model, talk with it, or make images with one");
  command->add_option("model", o->folder, "a run directory, a snapshot or a Hugging Face folder")
      ->required();
  AddChoice(*command, o->choice);
  const auto sample = [&](const char* flag, const char* key, const char* help) {
    command->add_option_function<std::string>(
        flag,
        [o, key](const std::string& value) {
          o->sets.push_back(fmt::format("sample.{}={}", key, value));
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
      "--sequence", [o](const std::string& value) { o->sets.push_back("model.sequence=" + value); },
      "tokens that are looked back on");
  command->add_option_function<std::string>(
      "--prompt", [o](const std::string& prompt) { o->prompt = prompt; }, "text to continue");
  command
      ->add_option("--stop", o->stop,
                   "a text that ends the continuation where it would begin; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--chat", o->chat.asked,
                    "answer each line of standard input as a turn of a conversation");
  command->add_option(
      "--chat-template", o->chat.chat_template,
      "how the conversation becomes text: a Jinja file, a folder with one, or chatml; default: the "
      "run's, or the tokenizer's own");
  command->add_option_function<std::string>(
      "--system", [o](const std::string& text) { o->chat.system = text; },
      "the system's turn, before the conversation");
  command->add_option_function<std::string>(
      "--adapter", [o](const std::string& value) { o->sets.push_back("lora.init_from=" + value); },
      "an adapter in PEFT's form, for a Hugging Face folder");
  command->add_option(
      "--dtype", o->dtype,
      "of weights and activations: fp32, bf16 or fp16; default: fp32, of texts on a "
      "GPU the run's amp.dtype or that of the folder's config.json");
  command->add_option("--tokenizer", o->tokenizer, "byte, or a tokenizer's path");
  command->add_option("--images", o->images.count, "of a model that makes images: how many")
      ->check(CLI::Range(int64_t{1}, int64_t{999'999}));
  command->add_option("--to", o->images.to, "the folder to write the images to, as PNG files");
  command->add_flag("--overwrite", o->images.overwrite, "replace the images that folder holds");
  command->add_option("--batch", o->images.batch, "images at a time (64)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->callback([o, command] {
    for (const char* option :
         {"--tokens", "--temperature", "--top-k", "--top-p", "--count", "--sequence", "--prompt",
          "--stop", "--tokenizer", "--chat", "--chat-template", "--system"}) {
      if (command->count(option) > 0) o->for_texts.emplace_back(option);
    }
    RunGenerate(*o);
  });
}

void AddPredict(CLI::App& app) {
  const auto o = std::make_shared<PredictCommand>();
  CLI::App* command = app.add_subcommand(
      "predict", "the classes of pictures, texts or voxels, or the words for [MASK]");
  command->add_option("model", o->folder, "a run directory, a snapshot or a Hugging Face folder")
      ->required();
  command->add_option("input", o->inputs,
                      "files, or folders of them: pictures (Netpbm's P5 and P6, of MNIST's or "
                      "CIFAR-10's form), volumes (NIfTI), or texts, one or a pair with a tab "
                      "between a line");
  AddChoice(*command, o->choice);
  command->add_option("--text", o->texts, "a text, in place of files; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--run-file", o->run_file,
                      "for a Hugging Face folder: a run file that says how data is prepared");
  command->add_option("--dtype", o->dtype, "of weights and activations: fp32, bf16 or fp16");
  command->add_option("--tokenizer", o->tokenizer, "of texts: a tokenizer's path");
  command->add_option("--batch", o->batch, "inputs at a time, at most as many as there are")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option("--to", o->to, "of volumes: the folder to write their classes to");
  command->add_flag("--overwrite", o->overwrite, "replace what that folder holds of other weights");
  command
      ->add_option("--overlap", o->overlap,
                   "of the windows that cover a volume, a part of their sides; default: "
                   "data.overlap")
      ->check(CLI::Range(0.0, 0.99));
  command->add_option("--host-budget", o->host_budget,
                      "of volumes: the most host memory that a prediction may take, such as 8GiB; "
                      "default: memory.host_budget");
  command->add_option("--top", o->top, "candidates to show")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option("--features", o->features,
                      "of pictures: the file, NumPy's .npy, to write the features to that the "
                      "classifier's last layer reads");
  command->add_flag("--json", o->json, "for programs: an object a line");
  command->callback([o] { RunPredict(*o); });
}

void AddInspect(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("inspect", "what a snapshot holds, and whether it is complete");
  command->add_option("snapshot", *path, "a snapshot, or a run directory for all of its")
      ->required();
  command->callback([path] { RunInspect(*path); });
}

void AddExport(CLI::App& app) {
  const auto o = std::make_shared<ExportCommand>();
  CLI::App* command =
      app.add_subcommand("export",
                         "write a run's weights for Hugging Face's transformers, or its "
                         "adapter for PEFT");
  command->add_option("run", o->run, "a run directory, or one of its snapshots")->required();
  command->add_option("--to", o->to, "the folder to write")->required();
  AddChoice(*command, o->choice);
  command->add_flag("--merge", o->merge,
                    "write full weights, with the run's adapter merged into them");
  command->add_option("--dtype", o->dtype, "of the weights: fp32, bf16 or fp16");
  command->add_option("--tokenizer", o->tokenizer,
                      "that goes with them, in place of the run's: byte, or a tokenizer's path");
  command->add_flag("--overwrite", o->overwrite, "replace the model that the folder holds");
  command->callback([o] { RunExport(*o); });
}

}  // namespace plimsoll::trainer
