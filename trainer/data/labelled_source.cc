// Texts with labels as a source of data, for models that classify texts or pairs of texts, such as
// BERT: fills the inputs "tokens" and "token_types", i32[B,T], "lengths" and "labels", i32[B].
// Called "labelled_text" in run files.
//
//     [CLS] text [SEP]            [CLS] text [SEP] text_pair [SEP]
//
// cut to T tokens as Hugging Face's `longest_first`: one token after the other leaves the longer of
// the two, the second if they are equally long. An epoch is a permutation of the N texts, drawn
// anew for each: sample n is text n mod N of epoch n / N.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "trainer/data/dataset.h"
#include "trainer/data/examples.h"
#include "trainer/data/labelled_texts.h"
#include "trainer/data/source.h"
#include "trainer/data/text_settings.h"
#include "trainer/data/text_slots.h"

namespace plimsoll::data {
namespace {

constexpr uint64_t kOrderStream = 1;  // of random numbers drawn from the seed
constexpr int32_t kNoLabel = -1;      // of rows that carry no loss

// Texts as ids, in one list.
class EncodedTexts {
 public:
  EncodedTexts(const std::vector<LabelledText>& texts, const LabelClasses& classes,
               const Tokenizer& tokenizer, const MarkerTokens& markers, const ModelSizes& model)
      : markers_(markers), sequence_(model.sequence) {
    std::vector<int32_t> first, second;
    for (const LabelledText& text : texts) {
      first = tokenizer.Encode(text.text);
      second = text.pair ? tokenizer.Encode(*text.pair) : std::vector<int32_t>();
      Truncate(text.pair.has_value(), first, second);
      texts_.push_back({.start = std::ssize(ids_),
                        .first = static_cast<int32_t>(first.size()),
                        .second = text.pair ? static_cast<int32_t>(second.size()) : kNoPair,
                        .label = classes.Of(text, model.classes)});
      ids_.insert(ids_.end(), first.begin(), first.end());
      ids_.insert(ids_.end(), second.begin(), second.end());
      positions_ += LengthOf(texts_.back());
    }
  }

  int64_t count() const { return std::ssize(texts_); }
  int64_t sequence() const { return sequence_; }
  int64_t truncated() const { return truncated_; }
  double padding() const {
    return 1 - static_cast<double>(positions_) / static_cast<double>(count() * sequence_);
  }

  // `number` beyond the last text: a row of padding without label.
  void FillRow(int64_t number, const TextSlots& slots, int64_t row) const {
    const Text text = number < count() ? texts_[static_cast<size_t>(number)] : Text();
    const int64_t length = number < count() ? LengthOf(text) : 0;
    const std::span<int32_t> tokens = RowOf(slots.tokens, row, sequence_);
    std::ranges::fill(tokens, markers_.pad);
    if (length > 0) {
      const auto ids = ids_.begin() + text.start;
      tokens[0] = markers_.start;
      auto next = std::copy_n(ids, text.first, tokens.begin() + 1);
      *next++ = markers_.separator;
      if (text.second != kNoPair) {
        *std::copy_n(ids + text.first, text.second, next) = markers_.separator;
      }
    }
    const std::span<int32_t> types = RowOf(slots.token_types, row, sequence_);
    std::ranges::fill(types, 0);
    if (!types.empty() && text.second != kNoPair) {
      std::fill(types.begin() + text.first + 2, types.begin() + length, 1);
    }
    std::ranges::fill(RowOf(slots.lengths, row, 1),
                      static_cast<int32_t>(std::max<int64_t>(length, 1)));
    std::ranges::fill(RowOf(slots.labels, row, 1), text.label);
  }

 private:
  static constexpr int32_t kNoPair = -1;
  struct Text {
    int64_t start = 0;         // in ids_
    int32_t first = 0;         // tokens of the text
    int32_t second = kNoPair;  // of its pair
    int32_t label = kNoLabel;
  };

  static int64_t LengthOf(const Text& text) {
    return text.first + 2 + (text.second == kNoPair ? 0 : text.second + 1);
  }

  void Truncate(bool pair, std::vector<int32_t>& first, std::vector<int32_t>& second) {
    const auto room = static_cast<size_t>(sequence_ - (pair ? 3 : 2));
    if (first.size() + second.size() <= room) return;
    ++truncated_;
    if (!pair) return first.resize(room);
    // What remains when tokens leave one after the other.
    const size_t shorter = std::min(first.size(), second.size());
    const size_t half = room / 2;
    if (shorter <= half) {
      (first.size() > second.size() ? first : second).resize(room - shorter);
    } else {
      first.resize(room - half);
      second.resize(half);
    }
  }

  MarkerTokens markers_;
  int64_t sequence_;
  std::vector<int32_t> ids_;
  std::vector<Text> texts_;
  int64_t truncated_ = 0;
  int64_t positions_ = 0;  // that aren't padding
};

TextSlots SlotsOf(std::span<const graph::Slot> slots, int64_t sequence) {
  const TextSlots found =
      TextSlotsOf(slots, sequence, "labelled_text", {"tokens", "token_types", "lengths", "labels"});
  RequireLengths(found, "labelled_text");
  return found;
}

class HeldOutTexts final : public Source {
 public:
  // The first `count` of the texts.
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
                 std::shared_ptr<const EncodedTexts> held_out, LabelClasses classes, uint64_t seed)
      : train_(std::move(train)),
        held_out_(std::move(held_out)),
        classes_(std::move(classes)),
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
  std::string Describe(const Reading& reading) const override {
    constexpr size_t kNamed = 5;
    const std::span<const std::string> names(classes_.names);
    std::string text = fmt::format(
        "data: {} texts in {} classes ({}{}) to train on, {} per step, {:.3g} epochs{}\n",
        train_->count(), names.size(), fmt::join(names.first(std::min(kNamed, names.size())), ", "),
        names.size() > kNamed ? ", …" : "", reading.samples_per_step,
        static_cast<double>(reading.samples) / static_cast<double>(train_->count()),
        reading.held_out_targets ? fmt::format(", {} held-out texts evaluated every {} steps",
                                               *reading.held_out_targets, reading.eval_every)
                                 : "");
    text += fmt::format("  {:.3g} % of the positions are padding", 100 * train_->padding());
    if (train_->truncated() > 0) {
      text += fmt::format(", {} texts are cut off after {} tokens", train_->truncated(),
                          train_->sequence());
    }
    return text + "\n";
  }

 private:
  std::shared_ptr<const EncodedTexts> train_, held_out_;
  LabelClasses classes_;
  uint64_t seed_;
};

std::vector<LabelledText> Open(const std::vector<std::string>& patterns, const DataOptions& options,
                               bool by_file, const std::string& key) {
  const std::vector<std::string> paths = ExpandFiles(patterns, options.exclude, key);
  for (const std::string& path : paths) {
    if (by_file || HoldsExamples(path)) continue;
    throw UserError(fmt::format(
        "{}: {} is no *.jsonl; give a line {{\"text\": …, \"label\": …}} a text, or let files' "
        "names be the labels with data.label_from: file",
        key, path));
  }
  const std::vector<MappedFile> files = MapTexts(paths, key);
  return by_file ? LabelByFile(files, options.split.delimiter) : ReadLabelledLines(files);
}

std::unique_ptr<Source> Make(const Settings& settings, const ModelSizes& model, uint64_t seed) {
  const DataOptions options = TextFilesFrom(settings, model.vocab);
  if (model.sequence < 5) {
    throw UserError(
        fmt::format("model.sequence: {} leaves no room for text between the special "
                    "tokens; give 5 or more",
                    model.sequence));
  }
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizerFor(options);
  const MarkerTokens markers = MarkersOf(*tokenizer, options.tokenizer, false);
  const bool by_file = settings.Text("label_from") == "file";
  LabelledSplit split = {.train = Open(settings.List("train"), options, by_file, "data.train"),
                         .eval = {}};
  const LabelClasses classes = ClassesOf(split.train, settings.List("label_names"));
  if (!options.eval.empty()) {
    split.eval = Open(options.eval, options, by_file, "data.eval");
  } else if (options.split.eval_fraction > 0) {
    split = SplitByClass(std::move(split.train), options.split.eval_fraction, options.split.seed);
  }
  const auto encoded = [&](const std::vector<LabelledText>& texts) {
    return std::make_shared<const EncodedTexts>(texts, classes, *tokenizer, markers, model);
  };
  return std::make_unique<LabelledSource>(
      encoded(split.train), split.eval.empty() ? nullptr : encoded(split.eval), classes, seed);
}

void Complete(Settings& settings) {
  if (!settings.Text("tokenizer").empty()) return;
  throw MissingSetting("tokenizer", "name the vocabulary that the model was trained with");
}

std::vector<Setting> Rows() {
  std::vector<Setting> rows = TextFileSettings();
  rows.push_back({.name = "label_from",
                  .type = Setting::Type::kChoice,
                  .doc = "Where labels stand: in the lines of `*.jsonl` files, `{\"text\": …, "
                         "\"label\": …}`, or in the names of text files, whose documents they are "
                         "the labels of.",
                  .default_value = std::string("json"),
                  .choices = {"json", "file"}});
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
    .fills = {"tokens", "token_types", "lengths", "labels"},
    .holds_out = &HoldsOutText,
});

}  // namespace
}  // namespace plimsoll::data
