// The data source "labelled_text": texts with labels, for models such as BERT that classify texts
// or pairs of texts. It fills the inputs "tokens" and "token_types", i32[B,T], "lengths", i32[B],
// and "labels", i32[B], or "label_values", f32[B,classes] or f32[B] (LabelKind).
//
//     [CLS] text [SEP]            [CLS] text [SEP] text_pair [SEP]
//
// Sequences are truncated to T tokens (encoded_texts.h). Each epoch is a new random permutation of
// the N texts: sample n is number n mod N in the permutation of epoch n / N.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/random.h"
#include "data/labels.h"
#include "data/source.h"
#include "data/texts/documents.h"
#include "data/texts/encoded_texts.h"
#include "data/texts/example_members.h"
#include "data/texts/examples.h"
#include "data/texts/text_settings.h"
#include "data/texts/text_slots.h"
#include "data/texts/unreadable_examples.h"
#include "data/tokens/dataset.h"
#include "formats/compression.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

// A text with its label. It comes from a file with one JSON object per line:
//
//   {"text": "Well said.", "label": "praise"}
//   {"text": "It rains.", "text_pair": "The sun shines.", "label": 2}
//
// (labels.h has the forms of labels), or from plain text, where each document has the name of its
// file as label. Further members: example_members.h.

struct LabelledText {
  std::string text;
  std::optional<std::string> pair;
  GivenLabel label;
};

struct LabelledSplit {
  std::vector<LabelledText> train, eval;
  // What is said of texts that cannot be read, in short and with their lines.
  std::string unread = {};
  std::vector<std::string> warnings = {};
};

LabelledText ParseLine(std::string_view line, const std::string& where, LabelKind kind) {
  const formats::JsonObject object = formats::JsonObject::FromText(line, where);
  LabelledText text = {.text = object.RequireString("text"),
                       .pair = std::nullopt,
                       .label = ParseLabel(object, where, kind)};
  if (object.Has("text_pair")) text.pair = object.RequireString("text_pair");
  CheckMembers(object, "label");
  return text;
}

bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n\f") == text.npos; }

// Texts with their labels, and what is said of those that cannot be read.
struct LabelledTexts {
  std::vector<LabelledText> texts;
  std::string unread = {};   // UnreadableExamples::Summary
  std::string warning = {};  // the same with a list
};

// Reads the texts in the order of the lines. Lines with labels of another kind cannot be read.
// UserErrors name the files and lines.
LabelledTexts ReadLabelledLines(const std::vector<MappedFile>& files, LabelKind kind,
                                const OnUnreadable& then, const std::string& key) {
  LabelledTexts read;
  UnreadableExamples unreadable(then);
  for (const MappedFile& file : files) {
    if (IsBlank(file.text())) throw UserError(file.path() + ": is empty; give it a line a text");
    ForEachExample(file, [&](std::string_view line, const std::string& where) {
      unreadable.Try([&] {
        try {
          read.texts.push_back(ParseLine(line, where, kind));
        } catch (const UserError& error) {
          throw UnreadableExample(error.what());
        }
      });
    });
  }
  const int64_t count = std::ssize(read.texts) + unreadable.count();
  unreadable.Require(count);
  read.unread = unreadable.Summary(count, key);
  if (!read.unread.empty()) {
    read.warning = fmt::format("{}: {}:{}", key, unreadable.Summary(count), unreadable.List());
  }
  return read;
}

// Reads the nonblank documents of each file. Their label is the file's name without folders and
// extensions. Throws a UserError for a file without documents.
std::vector<LabelledText> LabelByFile(const std::vector<MappedFile>& files,
                                      const std::string& delimiter) {
  std::vector<LabelledText> texts;
  for (const MappedFile& file : files) {
    const size_t before = texts.size();
    const std::filesystem::path path = formats::WithoutCompression(file.path());
    ForEachDocument(file, delimiter, [&](std::string_view document) {
      if (IsBlank(document)) return;
      texts.push_back({.text = std::string(document),
                       .pair = std::nullopt,
                       .label = {.names = {path.stem().string()}, .where = file.path()}});
    });
    if (texts.size() > before) continue;
    throw UserError(file.path() + ": holds no text; leave it out (data.exclude)");
  }
  return texts;
}

// Holds out a fraction of each class (of all texts, if `kind` is not kClass), rounded, but leaves
// at least one text of each class for training. The seed determines which texts are held out, and
// their order. Throws a UserError when no text would be held out.
LabelledSplit SplitByClass(std::vector<LabelledText> texts, LabelKind kind, double fraction,
                           uint64_t seed) {
  const bool one_class = kind == LabelKind::kClass;
  std::map<std::string, std::vector<size_t>> by_class;
  for (size_t i = 0; i < texts.size(); ++i) {
    by_class[one_class ? texts[i].label.names.front() : ""].push_back(i);
  }
  std::vector<bool> is_held_out(texts.size());
  size_t held_out = 0;
  uint64_t number = 0;
  for (const auto& [label, members] : by_class) {
    const size_t count = members.size();
    const auto wanted = static_cast<size_t>(std::llround(static_cast<double>(count) * fraction));
    const Permutation order(count, Hash(seed, number++));
    for (size_t i = 0; i < std::min(wanted, count - 1); ++i) {
      is_held_out[members[order(i)]] = true;
      ++held_out;
    }
  }
  if (held_out == 0) {
    throw UserError(
        fmt::format("data.eval_fraction: {} of {}{} holds out none; give more texts or a "
                    "larger fraction",
                    fraction, Counted(texts.size(), "text"),
                    one_class ? fmt::format(" in {}", Counted(by_class.size(), "class")) : ""));
  }
  // Texts are shuffled, since an evaluation may read only the first ones.
  LabelledSplit split;
  const Permutation order(texts.size(), seed);
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t text = order(i);
    (is_held_out[text] ? split.eval : split.train).push_back(std::move(texts[text]));
  }
  return split;
}

constexpr uint64_t kOrderStream = 1;  // stream of random numbers for the order

TextSlots SlotsOf(std::span<const graph::Slot> slots, int64_t sequence) {
  const TextSlots found =
      TextSlotsOf(slots, sequence, "labelled_text",
                  {"tokens", "token_types", "lengths", "labels", "label_values"});
  RequireLengths(found, "labelled_text");
  return found;
}

class HeldOutTexts final : public Source {
 public:
  // Uses the first `count` texts.
  HeldOutTexts(std::shared_ptr<const EncodedTexts> texts, int64_t count)
      : texts_(std::move(texts)), count_(count) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const TextSlots found = SlotsOf(slots, texts_->sequence());
    for (int64_t row = 0; row < found.rows; ++row) {
      const int64_t number = first + row;
      texts_->FillRow(number < count_ ? number : texts_->count(), found, row);
    }
  }
  int64_t CountTargets(std::string_view /*objective*/, int64_t first,
                       int64_t count) const override {
    return std::clamp<int64_t>(count_ - first, 0, count);
  }
  std::optional<int64_t> samples() const override { return count_; }
  bool pads() const override { return true; }

 private:
  std::shared_ptr<const EncodedTexts> texts_;
  int64_t count_;
};

class LabelledSource final : public Source {
 public:
  // `held_out` may be null.
  LabelledSource(std::shared_ptr<const EncodedTexts> train,
                 std::shared_ptr<const EncodedTexts> held_out, LabelKind kind, LabelClasses classes,
                 const LabelledSplit& said, uint64_t seed)
      : train_(std::move(train)),
        held_out_(std::move(held_out)),
        kind_(kind),
        classes_(std::move(classes)),
        unread_(said.unread),
        warnings_(said.warnings),
        seed_(seed) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const TextSlots found = SlotsOf(slots, train_->sequence());
    const int64_t count = train_->count();
    for (int64_t row = 0; row < found.rows; ++row) {
      const int64_t sample = first + row;
      const auto epoch = static_cast<uint64_t>(sample / count);
      const Permutation order(static_cast<uint64_t>(count), Hash(seed_, kOrderStream, epoch));
      train_->FillRow(static_cast<int64_t>(order(static_cast<uint64_t>(sample % count))), found,
                      row);
    }
  }
  std::vector<int64_t> sizes() const override { return {train_->count()}; }
  std::optional<int64_t> epoch_samples() const override { return train_->count(); }
  std::unique_ptr<Source> HeldOut(int64_t most) const override {
    if (held_out_ == nullptr) return nullptr;
    const int64_t all = held_out_->count();
    return std::make_unique<HeldOutTexts>(held_out_, most > 0 ? std::min(most, all) : all);
  }
  std::vector<std::string> class_names() const override { return classes_.names; }
  std::string Unread() const override { return unread_; }
  std::vector<std::string> Warnings() const override { return warnings_; }
  std::string Describe(const Reading& reading) const override {
    std::string text = fmt::format(
        "data: {} {} to train on, {} per step, {}{}\n", Counted(train_->count(), "text"),
        LabelsText(), reading.samples_per_step,
        Counted(fmt::format("{:.3g}", static_cast<double>(reading.samples) /
                                          static_cast<double>(train_->count())),
                "epoch"),
        reading.held_out_targets ? fmt::format(", {} evaluated every {}",
                                               Counted(*reading.held_out_targets, "held-out text"),
                                               Counted(reading.eval_every, "step"))
                                 : "");
    text += fmt::format("  {:.3g} % of the positions are padding", 100 * train_->padding());
    if (train_->truncated() > 0) {
      text += fmt::format(", {} {} cut off after {} tokens", Counted(train_->truncated(), "text"),
                          train_->truncated() == 1 ? "is" : "are", train_->sequence());
    }
    return text + "\n";
  }

 private:
  std::string LabelsText() const {
    if (kind_ == LabelKind::kNumber) return "with a number each";
    constexpr size_t kNamed = 5;
    const std::span<const std::string> names(classes_.names);
    return fmt::format("{} {} ({}{})", kind_ == LabelKind::kClass ? "in" : "with any of",
                       Counted(names.size(), "class"),
                       fmt::join(names.first(std::min(kNamed, names.size())), ", "),
                       names.size() > kNamed ? ", …" : "");
  }

  std::shared_ptr<const EncodedTexts> train_, held_out_;
  LabelKind kind_;
  LabelClasses classes_;
  std::string unread_;
  std::vector<std::string> warnings_;
  uint64_t seed_;
};

LabelledTexts Open(const std::vector<std::string>& patterns, const DataOptions& options,
                   bool by_file, LabelKind kind, const std::string& key) {
  const std::vector<std::string> paths = ExpandFiles(patterns, options.exclude, key);
  for (const std::string& path : paths) {
    if (by_file || HoldsExamples(path)) continue;
    throw UserError(fmt::format(
        "{}: {} is no *.jsonl; give a line {{\"text\": …, \"label\": …}} a text, or let files' "
        "names be the labels with data.label_from: file",
        key, path));
  }
  const std::vector<MappedFile> files = MapTexts(paths, key);
  if (by_file) return {.texts = LabelByFile(files, options.split.delimiter)};
  return ReadLabelledLines(files, kind, options.split.unreadable, key);
}

DataOptions OptionsFrom(const Settings& settings, int64_t vocab) {
  DataOptions options = TextFilesFrom(settings, vocab);
  options.split.unreadable.skip = settings.Text("unreadable") == "skip";
  return options;
}

// Throws a SettingError if settings give classes although the labels are numbers.
void CheckNumbers(const Settings& settings) {
  if (settings.Text("label_from") == "file") {
    throw SettingError("label_from",
                       "file gives classes, and model.problem_type: regression predicts numbers; "
                       "give *.jsonl files with a number as each label");
  }
  if (!settings.List("label_names").empty()) {
    throw SettingError("label_names",
                       "names classes, and model.problem_type: regression has none; remove it");
  }
}

LabelKind KindOf(const ModelSizes& model, const Settings& settings) {
  const LabelKind kind = LabelKindOf(model.label_values);
  if (kind == LabelKind::kNumber) CheckNumbers(settings);
  return kind;
}

LabelledTexts OpenTrain(const Settings& settings, const DataOptions& options, LabelKind kind) {
  return Open(settings.List("train"), options, settings.Text("label_from") == "file", kind,
              "data.train");
}

LabelClasses ClassesIn(const std::vector<LabelledText>& train, const Settings& settings,
                       LabelKind kind) {
  if (kind == LabelKind::kNumber) return {};
  std::vector<const GivenLabel*> labels;
  for (const LabelledText& text : train) labels.push_back(&text.label);
  return ClassesOf(labels, settings.List("label_names"));
}

// The opened texts with their labels, and what is needed to turn them into samples.
struct Opened {
  std::unique_ptr<Tokenizer> tokenizer;
  MarkerTokens markers;
  LabelKind kind;
  LabelledSplit split;
  LabelClasses classes;
};

Opened OpenAll(const Settings& settings, const ModelSizes& model) {
  const DataOptions options = OptionsFrom(settings, model.vocab);
  EncodedTexts::CheckSequence(model.sequence);
  Opened opened;
  opened.tokenizer = LoadTokenizerFor(options);
  opened.markers = MarkersOf(*opened.tokenizer, options.tokenizer, false);
  opened.kind = KindOf(model, settings);
  LabelledSplit& split = opened.split;
  LabelledTexts train = OpenTrain(settings, options, opened.kind);
  split.train = std::move(train.texts);
  split.warnings.push_back(train.warning);
  opened.classes = ClassesIn(split.train, settings, opened.kind);
  if (!options.eval.empty()) {
    LabelledTexts eval = Open(options.eval, options, settings.Text("label_from") == "file",
                              opened.kind, "data.eval");
    split.eval = std::move(eval.texts);
    split.warnings.push_back(eval.warning);
    if (!eval.unread.empty()) {
      train.unread += (train.unread.empty() ? "" : "; ") + eval.unread;
    }
  } else if (options.split.eval_fraction > 0) {
    LabelledSplit parts = SplitByClass(std::move(split.train), opened.kind,
                                       options.split.eval_fraction, options.split.seed);
    split.train = std::move(parts.train);
    split.eval = std::move(parts.eval);
  }
  split.unread = std::move(train.unread);
  std::erase(split.warnings, "");
  return opened;
}

std::unique_ptr<Source> Make(const Settings& settings, const ModelSizes& model, uint64_t seed) {
  const Opened opened = OpenAll(settings, model);
  const auto encoded = [&](const std::vector<LabelledText>& texts) {
    auto all = std::make_shared<EncodedTexts>(opened.markers, model.sequence);
    for (const LabelledText& text : texts) {
      all->Add(*opened.tokenizer, text.text, text.pair,
               opened.classes.Of(text.label, opened.kind, model.classes));
    }
    return std::shared_ptr<const EncodedTexts>(std::move(all));
  };
  return std::make_unique<LabelledSource>(
      encoded(opened.split.train), opened.split.eval.empty() ? nullptr : encoded(opened.split.eval),
      opened.kind, opened.classes, opened.split, seed);
}

void Check(const Settings& settings, const ModelSizes& model, std::span<const graph::Slot> slots) {
  const Opened opened = OpenAll(settings, model);
  for (const auto* const texts : {&opened.split.train, &opened.split.eval}) {
    for (const LabelledText& text : *texts) {
      opened.classes.Of(text.label, opened.kind, model.classes);
    }
  }
  SlotsOf(slots, model.sequence);
}

std::optional<int64_t> CountClasses(const Settings& settings, LabelKind kind) {
  if (const auto& names = settings.List("label_names"); !names.empty()) return std::ssize(names);
  const LabelledTexts train = OpenTrain(settings, OptionsFrom(settings, 0), kind);
  return std::ssize(ClassesIn(train.texts, settings, kind).names);
}

void Complete(Settings& settings) {
  if (!settings.Text("tokenizer").empty()) return;
  throw MissingSetting("tokenizer", "name the vocabulary that the model was trained with");
}

std::vector<Setting> Rows() {
  std::vector<Setting> rows = TextFileSettings();
  rows.push_back({.name = "label_from",
                  .type = Setting::Type::kChoice,
                  .doc = "Where labels are: in the lines of `*.jsonl` files, `{\"text\": …, "
                         "\"label\": …}`, or in the names of text files, whose documents they are "
                         "the labels of.",
                  .default_value = std::string("json"),
                  .choices = {"json", "file"}});
  rows.push_back({.name = "unreadable",
                  .type = Setting::Type::kChoice,
                  .doc = "What a line that cannot be read does.",
                  .default_value = std::string("error"),
                  .choices = {"error", "skip"}});
  rows.push_back({.name = "label_names",
                  .type = Setting::Type::kStringList,
                  .doc = "The names of the classes, in the order of their numbers.",
                  .default_value = std::vector<std::string>(),
                  .derived = "the labels of `train`, sorted"});
  return rows;
}

const SourceRegistration kSource({
    .name = "labelled_text",
    .settings = Rows(),
    .complete = &Complete,
    .make = &Make,
    .count_classes = &CountClasses,
    .bytes = [](const Settings& settings) { return BytesOf(TextFilesFrom(settings, 0)); },
    .check = &Check,
    .fills = {"tokens", "token_types", "lengths", {"labels", {1}}, {"label_values", {1, 2}}},
    .holds_out = &HoldsOutText,
    .example = "train: labelled.jsonl, tokenizer: FOLDER",
});

}  // namespace

}  // namespace plimsoll::data
