// The command-line options of the commands `plimsoll data …`.
#include "app/data_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/amounts.h"
#include "base/error.h"
#include "base/message.h"
#include "base/terminal.h"
#include "data/texts/examples.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::trainer {
namespace {

// Options of commands that read examples.
void AddChatOptions(CLI::App& command, data::ChatOptions& chats) {
  chats.key = "--chat-template";
  command.add_option("--chat-template", chats.chat_template,
                     "how chats become text: a Jinja file, a folder with one, or chatml; default: "
                     "the tokenizer's own");
  command
      .add_option_function<std::string>(
          "--loss-on",
          [&chats](const std::string& name) {
            chats.loss_on = name == "all" ? data::LossOn::kAll : data::LossOn::kAssistant;
          },
          "what of examples carries loss: assistant (default) or all")
      ->check(CLI::IsMember({"assistant", "all"}));
}

// Options of commands that tokenise texts.
void AddTextTokens(CLI::App& command, data::TextTokens& tokens) {
  command.add_flag("!--no-begin", tokens.begins,
                   "put no token before texts, though the tokenizer asks for one (data.begin)");
  command.add_option("--end", tokens.end,
                     "the token that ends texts; default: the tokenizer's own (data.end)");
}

void AddTokenize(CLI::App& command) {
  const auto o = std::make_shared<data::TokenizeOptions>();
  command
      .add_option("text", o->inputs,
                  "text files or examples (*.jsonl, *.json), also compressed (gzip, xz, zstd), or "
                  "patterns")
      ->required();
  command.add_option("--out", o->out, "folder for the token files")->required();
  command.add_option(
      "--tokenizer", o->tokenizer,
      "byte, a tokenizer.json, an encoder.json with vocab.bpe, a vocab.txt, or their "
      "folder");
  command.add_option("--exclude", o->exclude, "file names to leave out");
  command.add_option("--eval-fraction", o->split.eval_fraction, "share of documents held out")
      ->check(CLI::Validator(
          [](const std::string& text) -> std::string {
            double share = 0;
            const bool fits = CLI::detail::lexical_cast(text, share) && share >= 0 && share < 1;
            return fits ? "" : "is to be 0 or more and below 1";
          },
          ""));
  command.add_option("--separator", o->split.delimiter, "line that parts documents");
  command.add_option("--shard-tokens", o->shard_tokens, "tokens per file");
  command.add_flag("--header", o->header, "llm.c's form, with a header");
  command.add_flag("--overwrite", o->overwrite, "replace what is there");
  command.add_flag("!--no-end-of-text", o->end_of_text, "put nothing between documents");
  AddTextTokens(command, o->text_tokens);
  o->split.unreadable.way = "--skip-unreadable";
  command.add_flag("--skip-unreadable", o->split.unreadable.skip,
                   "leave out examples that cannot be read, and say how many");
  AddChatOptions(command, o->split.chats);
  command.callback([o] {
    const data::TokenizeResult result = data::Tokenize(*o, &PrintNote);
    PrintProgress(fmt::format("{} training and {} held-out tokens of {} bytes each in {}\n",
                              result.train_tokens, result.eval_tokens, result.width, o->out));
  });
}

void AddWordPiece(CLI::App& command) {
  const auto o = std::make_shared<data::WordPieceOptions>();
  command
      .add_option("text", o->inputs, "text files, also compressed (gzip, xz, zstd), or patterns")
      ->required();
  command.add_option("--out", o->out, "folder for vocab.txt and tokenizer_config.json")->required();
  command.add_option("--size", o->training.size, "tokens of the vocabulary")
      ->check(CLI::Range(6, 10'000'000));
  command.add_flag("--cased", o->cased, "keep upper case and accents");
  command.add_option("--exclude", o->exclude, "file names to leave out");
  command.add_option("--separator", o->separator, "line that parts documents, not counted");
  command.add_option("--characters", o->training.characters, "different characters at most")
      ->check(CLI::Range(1, 1'200'000));
  command
      .add_option("--min-count", o->training.least_count,
                  "how often two pieces must be neighbours to be merged")
      ->check(CLI::Range(1, 1'000'000'000));
  command.add_flag("--overwrite", o->overwrite, "replace what is there");
  command.callback([o] {
    const data::WordPieceResult result = data::MakeWordPieces(*o, &PrintNote);
    PrintProgress(fmt::format("{} tokens, of {} different words in {:.1f} MB of text, in {}\n",
                              result.tokens, result.words, static_cast<double>(result.bytes) / 1e6,
                              result.vocabulary));
  });
}

void AddInspectData(CLI::App& command) {
  struct Options {
    std::string format = "auto", color = "auto";
    // Holds the files and the tokenizer for token files, too.
    data::InspectExamplesOptions examples;
  };
  const auto o = std::make_shared<Options>();
  command.add_option("files", o->examples.files, "a token file, or examples (*.jsonl, *.json)")
      ->required();
  command.add_option("--tokenizer", o->examples.tokenizer,
                     "shows tokens as text; examples need it");
  command
      .add_option("--format", o->format,
                  "of a file without header: uint16 (as nanoGPT writes) or uint32")
      ->check(CLI::IsMember({"auto", "uint16", "uint32"}));
  command.add_option("--examples", o->examples.shown, "how many examples are shown; default: 3")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  command.add_option("--separator", o->examples.separator,
                     "line that ends examples where the tokenizer has no token for it");
  command.add_option("--color", o->color, "what carries loss in colour: auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  AddTextTokens(command, o->examples.text_tokens);
  AddChatOptions(command, o->examples.chats);
  command.callback([o, &command] {
    const std::vector<std::string>& files = o->examples.files;
    if (data::HoldsExamples(files.front())) {
      if (command.count("--format") > 0) {
        throw UserError("--format: is of token files, and examples are text; leave it out");
      }
      o->examples.colored =
          o->color == "always" || (o->color == "auto" && Terminal::Of(STDOUT_FILENO).colored);
      PrintAnswer(data::InspectExamples(o->examples, &PrintNote));
      return;
    }
    for (const char* option : {"--examples", "--separator", "--color", "--chat-template",
                               "--loss-on", "--no-begin", "--end"}) {
      if (command.count(option) == 0) continue;
      throw UserError(
          fmt::format("{}: is for examples (*.jsonl, *.json), and {} is read as a token "
                      "file; leave it out",
                      option, files.front()));
    }
    if (files.size() > 1) {
      throw UserError(
          fmt::format("{}: token files are inspected one at a time; name one", files[1]));
    }
    std::unique_ptr<data::Tokenizer> tokenizer;
    if (!o->examples.tokenizer.empty()) tokenizer = data::LoadTokenizer(o->examples.tokenizer);
    PrintAnswer(fmt::format(
        "{}\n", data::InspectTokenFile(files.front(), {.format = data::ParseTokenFormat(o->format)},
                                       tokenizer.get())
                    .ToString()));
  });
}

void AddVolumes(CLI::App& command) {
  const auto size = std::make_shared<std::vector<int64_t>>(1, 64);
  const auto o = std::make_shared<data::WriteVolumesOptions>();
  command.add_option("folder", o->folder, "where to write them")->required();
  command.add_option("--train", o->train, "volumes to train on");
  command.add_option("--test", o->test, "volumes to test with");
  command.add_option("--size", *size, "voxels of a side, or of depth, height and width")
      ->expected(1, 3)
      ->allow_extra_args(false);
  command.add_option("--channels", o->volume.channels, "channels of the images")
      ->check(CLI::Range(1, 64));
  command.add_option("--classes", o->volume.classes, "classes of the labels, with the background");
  command.add_option("--seed", o->seed, "another one makes up others");
  command.callback([o, size] {
    const bool cube = size->size() == 1;
    if (!cube && size->size() != 3) {
      throw UserError("--size: give one number of voxels, or three: depth, height and width");
    }
    o->volume.size = {(*size)[0], (*size)[cube ? 0 : 1], (*size)[cube ? 0 : 2]};
    data::WriteVolumes(*o);
    PrintProgress(fmt::format("{} to train on and {} to test with in {}\n",
                              Counted(o->train, "volume"), o->test, o->folder));
  });
}

void AddImages(CLI::App& command) {
  const auto o = std::make_shared<data::WriteImagesOptions>();
  command.add_option("folder", o->folder, "where to write them")->required();
  command.add_option("--from", o->from,
                     "a folder with files of MNIST's or CIFAR-10's form; default: " + o->from);
  command.add_option("--format", o->format, "png (default) or jpeg")
      ->check(CLI::IsMember({"png", "jpeg"}));
  command.add_option("--quality", o->quality, "of JPEG")->check(CLI::Range(1, 100));
  command.add_option("--train", o->train, "number of images of each class to train on; 0: all");
  command.add_option("--test", o->test, "number of images of each class to test with; 0: all");
  command.add_option("--classes", o->classes,
                     "names of the classes' folders, in the order of their numbers");
  command.callback([o] {
    const data::WrittenImages written = data::WriteImages(*o);
    PrintProgress(fmt::format("{} to train on and {} to test with in {}\n",
                              Counted(written.train, "image"), written.test, o->folder));
  });
}

}  // namespace

void AddData(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "data", "turn text into tokens, make a vocabulary, look at tokens, make up volumes");
  command->require_subcommand(1);
  AddTokenize(*command->add_subcommand("tokenize", "text files to token files"));
  AddWordPiece(*command->add_subcommand("wordpiece", "a WordPiece vocabulary of text files"));
  AddInspectData(*command->add_subcommand("inspect", "what a token file or examples hold"));
  AddVolumes(*command->add_subcommand("volumes", "made-up volumes with labels as NIfTI files"));
  AddImages(*command->add_subcommand(
      "images", "a data set's images as JPEG or PNG files, a folder for each class"));
}

}  // namespace plimsoll::trainer
