// `plimsoll predict` for models that read complete texts: predicts classes of texts, or words at
// masks.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/message.h"
#include "data/texts/encoded_texts.h"
#include "data/texts/example_members.h"
#include "data/texts/examples.h"
#include "data/texts/text_file.h"
#include "formats/json.h"
#include "models/family.h"
#include "models/huggingface.h"
#include "trainer/language/predict.h"
#include "trainer/resolve/from_config.h"

namespace plimsoll::trainer {
namespace {

struct InputText {
  InputPlace place;
  std::string text;
  std::optional<std::string> pair = {};
};

namespace fs = std::filesystem;

std::vector<std::string> FilesOf(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (std::error_code ignored; !fs::is_directory(path, ignored)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::string> found = NamesIn(path).files;
    if (found.empty()) throw UserError(path + ": holds no files");
    for (const std::string& name : found) files.push_back((fs::path(path) / name).string());
  }
  return files;
}

// Parses a line. One tab separates a pair of texts; several tabs are blanks of one text.
InputText Parse(const InputPlace& place, std::string_view line) {
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos || tab != line.rfind('\t')) {
    return {.place = place, .text = std::string(line)};
  }
  return {.place = place,
          .text = std::string(line.substr(0, tab)),
          .pair = std::string(line.substr(tab + 1))};
}

InputText ParseObject(const InputPlace& place, std::string_view line) {
  const auto object =
      formats::JsonObject::FromText(line, fmt::format("{}:{}", place.file, place.number));
  InputText text = {.place = place, .text = object.RequireString("text")};
  if (object.Has("text_pair")) text.pair = object.RequireString("text_pair");
  data::CheckMembers(object, "label");
  return text;
}

// The non-blank lines of the files: each is a text, or two texts separated by a tab. For *.jsonl,
// the members "text" and "text_pair" (data/texts/labelled_source.cc); labels are ignored. For a
// folder, all its files. Without files, the texts given with --text. UserErrors name file and line.
std::vector<InputText> ReadInputTexts(const PredictCommand& command) {
  std::vector<InputText> texts;
  const auto place = [](const std::string& file, int64_t number) {
    return InputPlace{.file = file, .unit = "line", .number = number};
  };
  for (size_t i = 0; i < command.texts.size(); ++i) {
    texts.push_back(Parse(place("--text", static_cast<int64_t>(i) + 1), command.texts[i]));
  }
  for (const std::string& file : FilesOf(command.inputs)) {
    const MappedFile mapped = data::OpenText(file, &PrintNote);
    const bool objects = data::HoldsExamples(file);
    if (objects && mapped.text().starts_with('[')) {
      throw UserError(file + ": is an array; write an object a line (jq -c '.[]')");
    }
    std::string_view rest = mapped.text();
    for (int64_t number = 1; !rest.empty(); ++number) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(rest.size(), end + 1));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find_first_not_of(" \t\f\v") == std::string_view::npos) continue;
      texts.push_back(objects ? ParseObject(place(file, number), line)
                              : Parse(place(file, number), line));
    }
  }
  if (texts.empty()) throw UserError("plimsoll predict: the files hold no text");
  return texts;
}

using Json = nlohmann::ordered_json;

struct Vocabulary {
  std::unique_ptr<data::Tokenizer> tokenizer;
  data::MarkerTokens markers;
};

Vocabulary VocabularyOf(const PredictCommand& command, const TrainedModel& trained,
                        bool needs_mask) {
  const std::string name = trained.Tokenizer(command.tokenizer);
  if (name.empty()) {
    throw UserError(command.folder + ": no tokenizer; name one with --tokenizer (a path)");
  }
  Vocabulary vocabulary;
  vocabulary.tokenizer = TokenizerFor(*trained.model, name);
  try {
    vocabulary.markers = data::MarkersOf(*vocabulary.tokenizer, name, needs_mask);
  } catch (const SettingError& error) {
    throw UserError(fmt::format("--tokenizer: {}", error.what()));
  }
  return vocabulary;
}

data::EncodedTexts Encode(const std::vector<InputText>& texts, const Vocabulary& vocabulary,
                          int64_t sequence) {
  data::EncodedTexts::CheckSequence(sequence);
  data::EncodedTexts encoded(vocabulary.markers, sequence);
  for (const InputText& text : texts) encoded.Add(*vocabulary.tokenizer, text.text, text.pair);
  return encoded;
}

void WarnOfTruncation(const data::EncodedTexts& encoded) {
  if (encoded.truncated() == 0) return;
  PrintWarning(fmt::format("{} of {} {} cut off after {}, which the model reads",
                           encoded.truncated(), Counted(encoded.count(), "text"),
                           encoded.truncated() == 1 ? "is" : "are",
                           Counted(encoded.sequence(), "token")));
}

// The input rows of a text program, which the host fills.
struct TextRows {
  TextRows(int64_t rows, int64_t sequence)
      : tokens(static_cast<size_t>(rows * sequence)),
        types(tokens.size()),
        lengths(static_cast<size_t>(rows)),
        last(lengths.size()) {}

  data::TextSlots slots() {
    data::TextSlots all;
    all.tokens = tokens;
    all.token_types = types;
    all.lengths = lengths;
    all.rows = std::ssize(lengths);
    return all;
  }

  std::vector<int32_t> tokens, types, lengths;
  std::vector<int32_t> last;  // the positions whose logits are needed
};

// A [MASK] in a text.
struct Mask {
  size_t text = 0;
  int32_t position = 0;  // position of its token
  std::vector<Candidate> candidates = {};
};

// Makes attention skip padding: a single text has its own length, even if samples in training were
// always full. The weights stay the same.
void ReadPadded(TrainedModel& trained) {
  const std::vector<Setting>& known = models::FindFamily(trained.model->family())->settings;
  if (std::ranges::find(known, "padded", &Setting::name) == known.end()) return;
  Settings settings;
  settings.Set("padded", true, "plimsoll predict");
  trained.model = models::ModelFromConfig(
      formats::JsonObject::FromText(models::ConfigJson(*trained.model), trained.folder), settings);
}

size_t Occurrences(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + word.size())) {
    ++count;
  }
  return count;
}

// The masks of all texts, in order. Throws a UserError for a text without a mask, or whose mask is
// truncated.
std::vector<Mask> FindMasks(const std::vector<InputText>& texts, const data::EncodedTexts& encoded,
                            int32_t mask, const std::string& word) {
  std::vector<Mask> masks;
  TextRows row(1, encoded.sequence());
  const data::TextSlots slots = row.slots();
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t before = masks.size();
    encoded.FillRow(static_cast<int64_t>(i), slots, 0);
    for (int32_t at = 0; at < row.lengths[0]; ++at) {
      if (row.tokens[static_cast<size_t>(at)] == mask) masks.push_back({.text = i, .position = at});
    }
    const size_t found = masks.size() - before;
    const size_t spelled =
        Occurrences(texts[i].text, word) + Occurrences(texts[i].pair.value_or(""), word);
    const std::string where = fmt::format("{}:{}", texts[i].place.file, texts[i].place.number);
    if (found < spelled) {
      throw UserError(
          fmt::format("{}: a {} stands behind the {} that the model reads; shorten "
                      "the text",
                      where, word, Counted(encoded.sequence(), "token")));
    }
    if (found == 0) {
      throw UserError(fmt::format(
          "{}: has no {}, and the model says what is in its place; write one", where, word));
    }
  }
  return masks;
}

// The token as a word within a text, without the space that decoding adds before the word.
std::string WordOf(const data::Tokenizer& tokenizer, int64_t id) {
  std::string text;
  tokenizer.Decode(static_cast<int32_t>(id), &text);
  if (text.starts_with(' ')) text.erase(0, 1);
  return text;
}

// The token as it is shown alone; a piece that continues a word begins with ##.
std::string TokenText(const data::Tokenizer& tokenizer, int64_t id) {
  const bool continues = tokenizer.ContinuesWord(static_cast<int32_t>(id)).value_or(false);
  return (continues ? "##" : "") + WordOf(tokenizer, id);
}

// The text with its masks replaced by the most likely words; `next` is the first mask of the text.
std::string Filled(std::string text, const std::string& word, const data::Tokenizer& tokenizer,
                   const Mask*& next, const Mask* end) {
  for (size_t at = text.find(word); at != text.npos && next != end; at = text.find(word, at)) {
    const int64_t id = (next++)->candidates.front().number;
    size_t begin = at;
    if (tokenizer.ContinuesWord(static_cast<int32_t>(id)).value_or(false)) {
      while (begin > 0 && text[begin - 1] == ' ') --begin;
    }
    const std::string filler = WordOf(tokenizer, id);
    text.replace(begin, at + word.size() - begin, filler);
    at = begin + filler.size();
  }
  return text;
}

std::string MaskLines(const InputText& text, std::span<const Mask> masks, const std::string& word,
                      const data::Tokenizer& tokenizer, bool json) {
  const Mask* next = masks.data();
  const Mask* const end = masks.data() + masks.size();
  std::string filled = Filled(text.text, word, tokenizer, next, end);
  if (text.pair) filled += (json ? "\t" : " | ") + Filled(*text.pair, word, tokenizer, next, end);
  if (json) {
    Json line = {{"file", text.place.file}, {"line", text.place.number}, {"filled", filled}};
    line["masks"] = Json::array();
    for (const Mask& mask : masks) {
      Json candidates = Json::array();
      for (const auto& [id, probability] : mask.candidates) {
        candidates.push_back(
            {{"token", TokenText(tokenizer, id)}, {"id", id}, {"probability", probability}});
      }
      line["masks"].push_back({{"position", mask.position}, {"candidates", candidates}});
    }
    return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  std::string lines =
      fmt::format("{}:{}: {}\n", text.place.file, text.place.number, formats::Printable(filled));
  for (const Mask& mask : masks) {
    lines += " ";
    for (size_t i = 0; i < mask.candidates.size(); ++i) {
      lines += fmt::format("{} {} {}",
                           i == 0   ? ""
                           : i == 1 ? "; then"
                                    : ",",
                           formats::Printable(TokenText(tokenizer, mask.candidates[i].number)),
                           PercentText(mask.candidates[i].probability));
    }
    lines += "\n";
  }
  return lines;
}

}  // namespace

Predicted PredictTexts(const PredictCommand& command, const TrainedModel& trained) {
  const std::vector<InputText> texts = ReadInputTexts(command);
  const Vocabulary vocabulary = VocabularyOf(command, trained, false);
  Predictor predictor(trained, command, RowsFor(command, trained, std::ssize(texts)), false);
  const data::EncodedTexts encoded = Encode(texts, vocabulary, predictor.sequence());
  WarnOfTruncation(encoded);
  const data::TextSlots slots =
      data::TextSlotsOf(predictor.session().slots(), predictor.sequence(), "predict",
                        {"tokens", "token_types", "lengths", "labels", "label_values"});
  data::RequireLengths(slots, "predict");
  const std::vector<std::string> names = ClassNamesOf(trained);
  const models::ProblemType problem = trained.model->problem_type().value();
  for (int64_t first = 0; first < encoded.count(); first += predictor.rows()) {
    for (int64_t row = 0; row < predictor.rows(); ++row) encoded.FillRow(first + row, slots, row);
    const std::vector<float> logits = predictor.ClassLogits();
    const size_t classes = logits.size() / static_cast<size_t>(predictor.rows());
    std::string lines;
    for (int64_t row = 0; row < std::min(predictor.rows(), encoded.count() - first); ++row) {
      lines +=
          PredictionLine(texts[static_cast<size_t>(first + row)].place,
                         std::span(logits).subspan(static_cast<size_t>(row) * classes, classes),
                         problem, names, command);
    }
    PrintAnswer(lines);
  }
  return {.inputs = encoded.count(), .memory = MemoryOf(predictor.session().compiled())};
}

Predicted FillMasks(const PredictCommand& command, TrainedModel trained) {
  const std::vector<InputText> texts = ReadInputTexts(command);
  const Vocabulary vocabulary = VocabularyOf(command, trained, true);
  ReadPadded(trained);
  const data::Tokenizer& tokenizer = *vocabulary.tokenizer;
  const int32_t mask = vocabulary.markers.mask;
  const std::string word = WordOf(tokenizer, mask);
  const data::EncodedTexts encoded = Encode(texts, vocabulary, trained.config().model.sequence());
  std::vector<Mask> masks = FindMasks(texts, encoded, mask, word);
  WarnOfTruncation(encoded);
  Predictor predictor(trained, command, RowsFor(command, trained, std::ssize(masks)), true);
  if (!predictor.session().Carries("lengths")) {
    throw UserError(command.folder + ": the model would read the padding of short texts as text");
  }

  // One row per mask, because the model must not know the words at other masks of the text.
  TextRows rows(predictor.rows(), encoded.sequence());
  const data::TextSlots slots = rows.slots();
  Session& session = predictor.session();
  size_t printed = 0;  // number of masks printed
  for (int64_t first = 0; first < std::ssize(masks); first += predictor.rows()) {
    const int64_t count = std::min(predictor.rows(), std::ssize(masks) - first);
    for (int64_t row = 0; row < predictor.rows(); ++row) {
      const Mask& of_row = masks[static_cast<size_t>(first + std::min(row, count - 1))];
      encoded.FillRow(static_cast<int64_t>(of_row.text), slots, row);
      rows.last[static_cast<size_t>(row)] = of_row.position;
    }
    session.Write<int32_t>("logits.tokens", rows.tokens);
    for (const auto& [name, values] :
         {std::pair("token_types", &rows.types), std::pair("lengths", &rows.lengths)}) {
      if (session.Carries(name)) session.Write<int32_t>(name, *values);
    }
    session.Write<int32_t>("last", rows.last);
    const std::vector<float> logits = predictor.MaskLogits();
    const size_t vocab = logits.size() / static_cast<size_t>(predictor.rows());
    // A padded vocabulary has ids without a meaning.
    const size_t known = std::min(vocab, static_cast<size_t>(tokenizer.vocab_size()));
    for (int64_t row = 0; row < count; ++row) {
      masks[static_cast<size_t>(first + row)].candidates = Likeliest(
          std::span(logits).subspan(static_cast<size_t>(row) * vocab, known), command.top);
    }
    // Prints the texts whose masks are all predicted.
    const auto done = static_cast<size_t>(first + count);
    while (printed < done) {
      size_t end = printed;
      while (end < masks.size() && masks[end].text == masks[printed].text) ++end;
      if (end > done) break;
      PrintAnswer(MaskLines(texts[masks[printed].text],
                            std::span(masks).subspan(printed, end - printed), word, tokenizer,
                            command.json));
      printed = end;
    }
  }
  return {.inputs = encoded.count(), .memory = MemoryOf(session.compiled())};
}

}  // namespace plimsoll::trainer
