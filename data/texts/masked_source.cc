// The data source "masked_text": texts with masked tokens, for models such as BERT that learn to
// predict these. It fills the inputs "tokens", "targets" and "token_types", i32[B,T], "lengths"
// i32[B] and, for pairs, "next_sentence" i32[B].
//
// Each epoch is a new random permutation of the N pieces of the text (masked_text.h): sample n is
// number n mod N in the permutation of epoch n / N. Masks are drawn for each sample.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/error.h"
#include "base/random.h"
#include "data/source.h"
#include "data/texts/masked_text.h"
#include "data/texts/text_settings.h"
#include "data/tokens/dataset.h"
#include "data/tokens/scratch_tokens.h"

namespace plimsoll::data {
namespace {

// Streams of random numbers drawn from one seed.
constexpr uint64_t kOrderStream = 1, kMaskStream = 2;

// Held-out samples are the same for runs with different seeds.
constexpr uint64_t kHeldOutSeed = 1;

// The number of special tokens in a made-up vocabulary, which has no tokenizer.
constexpr int32_t kSyntheticSpecial = 5;

MaskedRow MaskedRowOf(const TextSlots& slots, int64_t row, int64_t sequence) {
  return {.tokens = RowOf(slots.tokens, row, sequence),
          .targets = RowOf(slots.targets, row, sequence),
          .token_types = RowOf(slots.token_types, row, sequence),
          .length = RowOf(slots.lengths, row, 1),
          .next_sentence = RowOf(slots.next_sentence, row, 1)};
}

TextSlots SlotsOf(std::span<const graph::Slot> slots, int64_t sequence, bool pairs) {
  if (pairs) {
    const TextSlots found =
        TextSlotsOf(slots, sequence, "masked_text",
                    {"tokens", "targets", "token_types", "lengths", "next_sentence"});
    RequireLengths(found, "masked_text with data.pairs");
    return found;
  }
  if (std::ranges::find(slots, "next_sentence", &graph::Slot::name) != slots.end()) {
    throw UserError(
        "masked_text fills the model's input 'next_sentence', whether one text follows another, "
        "only with data.pairs: true; set it");
  }
  return TextSlotsOf(slots, sequence, "masked_text",
                     {"tokens", "targets", "token_types", "lengths"});
}

// The piece of a sample, and the key from which its masks are drawn.
struct Sample {
  int64_t piece = 0;
  uint64_t key = 0;
};

// Counts the targets of samples; sample_of(number) returns a sample's piece and key.
template <typename SampleOf>
int64_t CountMasks(const MaskedText& text, int64_t first, int64_t count, SampleOf sample_of) {
  std::vector<int32_t> tokens(static_cast<size_t>(text.sequence()));
  MaskedRow row;
  row.tokens = tokens;
  int64_t total = 0;
  for (int64_t i = first; i < first + count; ++i) {
    const Sample sample = sample_of(i);
    total += text.FillRow(sample.piece, sample.key, row);
  }
  return total;
}

// Whether this is the objective "next_sentence", which is separate from the masks; all samples
// count for it.
bool IsOfPairs(std::string_view objective) { return objective == "next_sentence"; }

class HeldOutMaskedText final : public Source {
 public:
  HeldOutMaskedText(std::shared_ptr<const MaskedText> text, bool pairs, int64_t count)
      : text_(std::move(text)), pairs_(pairs), count_(count) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const TextSlots found = SlotsOf(slots, text_->sequence(), pairs_);
    for (int64_t row = 0; row < found.rows; ++row) {
      const MaskedRow own = MaskedRowOf(found, row, text_->sequence());
      if (first + row < count_) {
        const Sample sample = SampleOf(first + row);
        text_->FillRow(sample.piece, sample.key, own);
      } else {
        text_->FillEmptyRow(own);
      }
    }
  }
  int64_t CountTargets(std::string_view objective, int64_t first, int64_t count) const override {
    count = std::clamp<int64_t>(count_ - first, 0, count);
    if (IsOfPairs(objective)) return count;
    return CountMasks(*text_, first, count, &SampleOf);
  }
  std::optional<int64_t> samples() const override { return count_; }
  bool pads() const override { return true; }

 private:
  static Sample SampleOf(int64_t number) {
    return {number, Hash(kHeldOutSeed, kMaskStream, static_cast<uint64_t>(number))};
  }

  std::shared_ptr<const MaskedText> text_;
  bool pairs_;
  int64_t count_;
};

class MaskedSource final : public Source {
 public:
  // `held_out` may be null.
  MaskedSource(std::shared_ptr<const MaskedText> train, std::shared_ptr<const MaskedText> held_out,
               const Settings& settings, uint64_t seed)
      : train_(std::move(train)),
        held_out_(std::move(held_out)),
        settings_(settings),
        pairs_(settings.Bool("pairs")),
        seed_(seed) {}

  void Fill(int64_t first, std::span<const graph::Slot> slots) const override {
    const TextSlots found = SlotsOf(slots, train_->sequence(), pairs_);
    for (int64_t row = 0; row < found.rows; ++row) {
      const Sample sample = SampleOf(first + row);
      train_->FillRow(sample.piece, sample.key, MaskedRowOf(found, row, train_->sequence()));
    }
  }
  int64_t CountTargets(std::string_view objective, int64_t first, int64_t count) const override {
    if (IsOfPairs(objective)) return count;
    return CountMasks(*train_, first, count, [this](int64_t n) { return SampleOf(n); });
  }
  std::vector<int64_t> sizes() const override { return {train_->tokens()}; }
  std::optional<int64_t> epoch_samples() const override {
    if (settings_.Bool("synthetic")) return std::nullopt;
    return train_->pieces();
  }
  std::unique_ptr<Source> HeldOut(int64_t most) const override {
    if (held_out_ == nullptr) return nullptr;
    const int64_t all = held_out_->pieces();
    return std::make_unique<HeldOutMaskedText>(held_out_, pairs_,
                                               most > 0 ? std::min(most, all) : all);
  }
  std::string Describe(const Reading& reading) const override {
    const auto count = [](int64_t n) { return FormatCount(static_cast<double>(n)); };
    const bool synthetic = settings_.Bool("synthetic");
    std::string text = fmt::format(
        "data: {} {}tokens to train on, in {} {} of {}, {} per step{}{}\n", count(train_->tokens()),
        synthetic ? "random " : "", count(train_->pieces()), pairs_ ? "pairs of texts" : "texts",
        train_->sequence(), reading.samples_per_step,
        synthetic
            ? ""
            : fmt::format(", {}",
                          Counted(fmt::format("{:.3g}", static_cast<double>(reading.samples) /
                                                            static_cast<double>(train_->pieces())),
                                  "epoch")),
        reading.held_out_targets
            ? fmt::format(", {} evaluated every {}",
                          Counted(count(*reading.held_out_targets), "held-out mask"),
                          Counted(reading.eval_every, "step"))
            : "");
    const double mask = settings_.Float("mask_share"), random = settings_.Float("random_share");
    text += fmt::format(
        "  masked: {:.3g} % of the {}, of which {:.3g} % become the mask, {:.3g} % a random "
        "token\n",
        100 * settings_.Float("mask_fraction"), settings_.Bool("whole_words") ? "words" : "tokens",
        100 * mask, 100 * random);
    text += fmt::format("  {:.3g} % of the positions are padding\n",
                        100 * std::max(train_->padding(), 0.0));
    SourceList all = train_->sources();
    if (held_out_ != nullptr) {
      all.insert(all.end(), held_out_->sources().begin(), held_out_->sources().end());
    }
    return text + ScratchText(all);
  }

 private:
  Sample SampleOf(int64_t number) const {
    const int64_t pieces = train_->pieces();
    const auto epoch = static_cast<uint64_t>(number / pieces);
    const Permutation order(static_cast<uint64_t>(pieces), Hash(seed_, kOrderStream, epoch));
    return {static_cast<int64_t>(order(static_cast<uint64_t>(number % pieces))),
            Hash(seed_, kMaskStream, static_cast<uint64_t>(number))};
  }

  std::shared_ptr<const MaskedText> train_, held_out_;
  Settings settings_;
  bool pairs_;
  uint64_t seed_;
};

MaskingOptions MaskingFrom(const Settings& settings) {
  const MaskingOptions options = {.fraction = settings.Float("mask_fraction"),
                                  .mask_share = settings.Float("mask_share"),
                                  .random_share = settings.Float("random_share")};
  if (options.mask_share + options.random_share > 1 + 1e-9) {
    throw SettingError(
        "random_share",
        fmt::format("{} and data.mask_share {}{} are more than 1 together", options.random_share,
                    options.mask_share, settings.At("mask_share")));
  }
  return options;
}

// Whether each id continues a word, by id. Throws a SettingError when this is needed and the
// tokenizer does not know it.
std::vector<bool> ContinuationsOf(const Tokenizer* tokenizer, bool needed) {
  std::vector<bool> continues;
  const bool tells = tokenizer != nullptr && tokenizer->ContinuesWord(0).has_value();
  if (needed && !tells) {
    throw SettingError("whole_words",
                       "needs a tokenizer whose tokens tell where words begin, a WordPiece "
                       "vocabulary; remove it, or name one in data.tokenizer");
  }
  for (int32_t id = 0; tells && id < tokenizer->vocab_size(); ++id) {
    continues.push_back(*tokenizer->ContinuesWord(id));
  }
  return continues;
}

std::vector<int32_t> SentenceEndsOf(const Tokenizer& tokenizer) {
  std::vector<int32_t> ends;
  for (const char* mark : {".", "!", "?", "…", "。", "！", "？", "।", "؟", "۔"}) {
    if (const auto id = tokenizer.TokenId(mark)) ends.push_back(*id);
  }
  std::ranges::sort(ends);
  return ends;
}

// The special tokens at the beginning of the vocabulary, in the order of `plimsoll data wordpiece`.
MarkerTokens SyntheticMarkers() {
  return {.pad = 0, .start = 2, .separator = 3, .mask = 4, .special = {0, 1, 2, 3, 4}};
}

MaskedTextForm FormFrom(const Settings& settings, const DataOptions& options,
                        const ModelSizes& model) {
  const MaskingOptions masking = MaskingFrom(settings);
  const bool whole_words = settings.Bool("whole_words");
  const std::string& name = options.tokenizer;
  const std::unique_ptr<Tokenizer> tokenizer = name.empty() ? nullptr : LoadTokenizerFor(options);
  if (tokenizer == nullptr && model.vocab <= kSyntheticSpecial) {
    throw UserError(
        fmt::format("model.vocab: {} leaves no tokens besides the special ones; give more than {}",
                    model.vocab, kSyntheticSpecial));
  }
  const MarkerTokens markers =
      tokenizer == nullptr ? SyntheticMarkers() : MarkersOf(*tokenizer, name, true);
  const std::vector<bool> continues = ContinuationsOf(tokenizer.get(), whole_words);
  return {
      .sequence = model.sequence,
      .pairs = settings.Bool("pairs"),
      .markers = markers,
      .masking = TokenMasking(masking, markers,
                              tokenizer == nullptr ? model.vocab : tokenizer->vocab_size(),
                              whole_words ? continues : std::vector<bool>()),
      .continues = continues,
      .sentence_ends = tokenizer == nullptr ? std::vector<int32_t>() : SentenceEndsOf(*tokenizer),
      .document_end = tokenizer == nullptr ? markers.separator
                                           : tokenizer->EndOfText().value_or(markers.separator),
      .of_documents = !settings.Bool("synthetic")};
}

// Opens the files; token files are opened without the tokenizer.
DataOptions FilesFrom(const Settings& settings, DataOptions options) {
  const bool of_tokens = std::ranges::any_of(
      settings.List("train"), [](const std::string& file) { return file.ends_with(".bin"); });
  if (of_tokens) options.tokenizer.clear();
  return options;
}

void Check(const Settings& settings, const ModelSizes& model, std::span<const graph::Slot> slots) {
  const DataOptions options = TextFilesFrom(settings, model.vocab);
  FormFrom(settings, options, model);
  CheckData(FilesFrom(settings, options));
  SlotsOf(slots, model.sequence, settings.Bool("pairs"));
}

std::unique_ptr<Source> Make(const Settings& settings, const ModelSizes& model, uint64_t seed) {
  DataOptions options = TextFilesFrom(settings, model.vocab);
  options.synthetic = settings.Bool("synthetic");
  options.seed = seed;
  const MaskedTextForm form = FormFrom(settings, options, model);
  options = FilesFrom(settings, options);
  DataSet data = OpenData(options);
  const auto text_of = [&](std::vector<MixturePart>& parts, const char* key) {
    if (parts.empty()) return std::shared_ptr<const MaskedText>();
    return std::make_shared<const MaskedText>(std::move(parts.front().sources), form, key);
  };
  return std::make_unique<MaskedSource>(text_of(data.train, "data.train"),
                                        text_of(data.eval, "data.eval"), settings, seed);
}

void Complete(Settings& settings) {
  if (settings.Bool("synthetic") || !settings.Text("tokenizer").empty()) return;
  throw MissingSetting("tokenizer",
                       "name a WordPiece vocabulary; plimsoll data wordpiece makes one of text");
}

std::vector<Setting> Rows() {
  std::vector<Setting> rows = TextFileSettings();
  for (Setting& row : rows) {
    if (row.derived == "required") row.derived = "required without `synthetic`";
  }
  const auto share = [](const char* name, const char* doc, double otherwise) {
    return Setting{.name = name,
                   .type = Setting::Type::kFloat,
                   .doc = doc,
                   .default_value = otherwise,
                   .min = 0,
                   .max = 1};
  };
  rows.push_back({.name = "synthetic",
                  .type = Setting::Type::kBool,
                  .doc = "Random tokens in place of files.",
                  .default_value = false});
  rows.push_back({.name = "pairs",
                  .type = Setting::Type::kBool,
                  .doc = "A sample is two texts, of which the second follows the first in half of "
                         "the samples; otherwise it is one text.",
                  .default_value = false});
  rows.push_back(share("mask_fraction", "Part of the tokens that the model has to find.", 0.15));
  rows.back().above_min = true;
  rows.push_back(share("mask_share", "Part of those that become the mask token.", 0.8));
  rows.push_back(
      share("random_share", "Part of them that become a random token; the rest stay.", 0.1));
  rows.push_back({.name = "whole_words",
                  .type = Setting::Type::kBool,
                  .doc = "Masks all pieces of a word, or none.",
                  .default_value = false});
  return rows;
}

const SourceRegistration kSource({
    .name = "masked_text",
    .settings = Rows(),
    .complete = &Complete,
    .make = &Make,
    .bytes = [](const Settings& settings) { return BytesOf(TextFilesFrom(settings, 0)); },
    .check = &Check,
    .fills = {"tokens", "targets", "token_types", "lengths", "next_sentence"},
    .holds_out =
        [](const Settings& settings) {
          return settings.Bool("synthetic") || HoldsOutText(settings);
        },
    .made_up = "synthetic",
    .example = "train: [TEXT, …], tokenizer: FOLDER",
});

}  // namespace
}  // namespace plimsoll::data
