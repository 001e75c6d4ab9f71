// The command `plimsoll data wordpiece`: makes a WordPiece vocabulary from text.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "app/data_commands.h"
#include "base/error.h"
#include "base/output_file.h"
#include "data/texts/documents.h"
#include "data/texts/examples.h"
#include "data/tokenizers/wordpiece.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kReportEvery = int64_t{8} << 20;  // bytes of text between progress lines

// Counts the words of a text line by line; no word continues on the next line.
void CountWords(std::string_view text, const std::string& separator, WordCounts* counts) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (separator.empty() || line != separator) counts->Add(line);
  }
}

std::string ConfigText(bool cased) {
  nlohmann::ordered_json config = {{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", !cased}};
  constexpr const char* kKeys[] = {"pad_token", "unk_token", "cls_token", "sep_token",
                                   "mask_token"};
  for (size_t i = 0; i < std::size(kKeys); ++i) config[kKeys[i]] = kBertSpecialTokens[i];
  return config.dump(2) + "\n";
}

}  // namespace

WordPieceResult MakeWordPieces(const WordPieceOptions& options, const Say& say) {
  const std::string command = "data wordpiece";
  const fs::path folder = options.out;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw UserError(fmt::format("{}: the folder cannot be made: {}; choose another --out",
                                folder.string(), error.message()));
  }
  const fs::path vocabulary = folder / "vocab.txt", config = folder / "tokenizer_config.json";
  for (const fs::path& path : {vocabulary, config}) {
    if (!fs::exists(path, error) || options.overwrite) continue;
    throw UserError(path.string() +
                    ": is there already; choose another --out, or give --overwrite");
  }

  WordPieceTraining training = options.training;
  training.words = {.lower_case = !options.cased, .strip_accents = !options.cased};
  WordCounts counts(training.words);
  WordPieceResult result = {.vocabulary = vocabulary.string()};
  int64_t next_report = kReportEvery;
  for (const std::string& path : ExpandFiles(options.inputs, options.exclude, command)) {
    RequireReadableKind(path, command);
    if (HoldsExamples(path)) {
      throw UserError(
          fmt::format("{}: {} holds examples; name text files, or leave it out by "
                      "--exclude '*.json*'",
                      command, path));
    }
    const MappedFile file = OpenText(path, say);
    CountWords(file.text(), options.separator, &counts);
    result.bytes += std::ssize(file.text());
    if (!say || result.bytes < next_report) continue;
    next_report = result.bytes + kReportEvery;
    say(fmt::format("wordpiece: {:.1f} MB read, {} different words\n",
                    static_cast<double>(result.bytes) / 1e6, counts.words().size()));
  }
  result.words = std::ssize(counts.words());
  if (result.words == 0) throw UserError(command + ": no words; name files that hold text");

  const std::vector<std::string> tokens = TrainWordPieces(counts, training, [&](int64_t done) {
    if (say) say(fmt::format("wordpiece: {} of {} tokens\n", done, training.size));
  });
  std::string lines;
  for (const std::string& token : tokens) lines += token + "\n";
  WriteWhole(vocabulary.string(), lines);
  WriteWhole(config.string(), ConfigText(options.cased));
  result.tokens = std::ssize(tokens);
  return result;
}

}  // namespace plimsoll::data
