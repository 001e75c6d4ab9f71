#include "data/tokenizers/bpe_tokenizer.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "data/tokenizers/unicode.h"

namespace plimsoll::data {
namespace {

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeDescription description)
      : tokens_(std::move(description.tokens)),
        is_byte_(std::move(description.is_byte)),
        normalizer_(std::move(description.normalizer)),
        metaspace_(std::move(description.metaspace)),
        patterns_(std::move(description.patterns)),
        strips_space_(description.strips_space),
        bpe_(std::move(description.model)) {
    is_byte_.resize(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!tokens_[id].empty() && !is_byte_[id])
        ids_.emplace(tokens_[id], static_cast<int32_t>(id));
    }
    for (AddedToken& token : description.added) {
      ids_[token.content] = token.id;
      added_have_blanks_ |= HasBlanks(token.content);
      if (token.normalized) {
        const std::string matched = normalizer_.Apply(token.content);
        // The token may begin at a blank; it is then adjacent to the text before the blank.
        added_have_blanks_ |= token.single_word && matched.starts_with(Become(" "));
        normalized_added_.Add(matched, token);
        normalized_ends_.push_back(normalizer_.Apply(token.content, /*within=*/true));
      } else {
        raw_added_.Add(token.content, token);
      }
    }
    raw_added_.Sort();
    normalized_added_.Sort();
  }

  void Encode(std::string_view text, std::vector<int32_t>* out, Place place) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto push = [&](int32_t id) { out->push_back(id); };
    raw_added_.ForEach(
        text,
        [&](std::string_view part) {
          const bool first = part.data() == text.data();
          const bool within = first && place == Place::kWithin;
          std::string storage;
          if (!normalizer_.empty()) part = storage = normalizer_.Apply(part, within);
          normalized_added_.ForEach(
              part,
              [&](std::string_view plain) {
                const bool begins = plain.data() == part.data();
                EncodePlain(plain, first && begins, within && begins, out);
              },
              push);
        },
        push);
  }

  size_t EncodeStart(std::string_view text, std::vector<int32_t>* out, Place place) const override {
    // Text must never be cut within an added token.
    if (added_have_blanks_) return 0;
    if (!metaspace_ && !patterns_.empty()) return EncodeMatches(text, out);
    const size_t end = WordsEnd(text);
    if (end > 0) Encode(text.substr(0, end), out, place);
    return end;
  }

  void Decode(int32_t id, std::string* out) const override {
    if (id < 0 || id >= static_cast<int64_t>(tokens_.size()) || tokens_[id].empty()) {
      out->append(kReplacement);
    } else {
      out->append(tokens_[id]);
    }
  }

  std::string Decode(const std::vector<int32_t>& ids) const override {
    std::string text, bytes;
    // A run of byte tokens is decoded as UTF-8 if all of it is valid; otherwise each byte becomes
    // U+FFFD.
    const auto end_bytes = [&] {
      bool valid = true;
      ForEachUtf8Run(bytes, [&](std::string_view, bool run_valid) { valid &= run_valid; });
      if (valid) text += bytes;
      for (size_t i = 0; !valid && i < bytes.size(); ++i) text += kReplacement;
      bytes.clear();
    };
    for (const int32_t id : ids) {
      const bool is_byte = id >= 0 && id < vocab_size() && is_byte_[static_cast<size_t>(id)];
      if (!is_byte) end_bytes();
      Decode(id, is_byte ? &bytes : &text);
    }
    end_bytes();
    if (strips_space_ && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }

  std::optional<int32_t> TokenId(std::string_view token) const override {
    const auto found = ids_.find(std::string(token));
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

 private:
  // Encodes a part of a text between added tokens. `first`: the part is at the beginning of the
  // text; `within`: it continues an earlier text.
  void EncodePlain(std::string_view text, bool first, bool within,
                   std::vector<int32_t>* out) const {
    if (metaspace_) {
      EncodeMetaspace(text, first, within, out);
      return;
    }
    ForEachUtf8Run(text, [&](std::string_view run, bool valid) {
      EncodePiece(run, valid ? 0 : patterns_.size(), out);
    });
  }

  void EncodeMetaspace(std::string_view text, bool first, bool within,
                       std::vector<int32_t>* out) const {
    const std::string& mark = metaspace_->replacement;
    std::string marked = ReplaceAll(text, " ", mark);
    const bool wanted = metaspace_->prepend == Metaspace::Prepend::kAlways ||
                        (metaspace_->prepend == Metaspace::Prepend::kFirst && first);
    if (wanted && !within && !marked.starts_with(mark)) marked.insert(0, mark);
    std::string_view rest = marked;
    while (metaspace_->split) {
      const size_t next = rest.find(mark, 1);
      if (next == std::string_view::npos) break;
      bpe_.Encode(rest.substr(0, next), out);
      rest.remove_prefix(next);
    }
    bpe_.Encode(rest, out);
  }

  // Whether an added token contains a blank or newline, before or after normalisation.
  bool HasBlanks(const std::string& token) const {
    if (token.find_first_of(" \n") != token.npos) return true;
    return !token.empty() && Become(token).find(Become(" "), 1) != token.npos;
  }

  // Normalises text that continues an earlier text.
  std::string Become(std::string_view text) const {
    const std::string out = normalizer_.Apply(text, /*within=*/true);
    return metaspace_ ? ReplaceAll(out, " ", metaspace_->replacement) : out;
  }

  // The last place before a blank or newline where words are separated whatever follows; 0 if no
  // such place exists.
  size_t WordsEnd(std::string_view text) const {
    if (!normalizer_.CutsBeforeBlanks()) return 0;
    for (size_t at = text.find_last_of(" \n"); at != text.npos && at > 0;
         at = text.find_last_of(" \n", at - 1)) {
      if (PartsAt(text, at)) return at;
    }
    return 0;
  }

  // Whether any added token absorbs white space.
  bool Strips() const { return raw_added_.Strips() || normalized_added_.Strips(); }

  bool PartsAt(std::string_view text, size_t at) const {
    // A token before or after `at` may absorb the white space around that place.
    if (Strips() && IsWhiteSpace(LastCharacter(text.substr(0, at)))) return false;
    // Text after an added token counts as a text of its own, so a space is put before it.
    constexpr size_t kLongestAdded = 256;
    size_t begin = at - std::min(at, kLongestAdded);
    while (begin < at && (static_cast<uint8_t>(text[begin]) & 0xc0) == 0x80) ++begin;
    const std::string_view before = text.substr(begin, at - begin);
    if (raw_added_.AnyEnds(before)) return false;
    // A normalised added token may begin with the prefix that the normaliser adds to each text.
    // `before` does not have that prefix, so it is compared with the tokens without their prefix.
    const std::string normalized = normalizer_.Apply(before, /*within=*/true);
    if (std::ranges::any_of(normalized_ends_,
                            [&](const auto& token) { return normalized.ends_with(token); })) {
      return false;
    }
    // A non-ASCII character may compose with the next one, so it cannot be checked by itself.
    const bool plain = static_cast<uint8_t>(text[at - 1]) < 0x80;
    if (normalizer_.Composes() && !plain) return false;
    const std::string right = Become(text.substr(at, 1));
    if (metaspace_ && metaspace_->split && right == metaspace_->replacement) return true;
    return bpe_.Parts(LastCharacter(Become(before)), FirstCharacter(right));
  }

  // A place where text may be cut: its offset in the text, and the number of ids before it.
  struct Cut {
    size_t text = 0, ids = 0;
  };

  // Encodes up to the last piece before a blank or newline whose bounds do not depend on the text
  // that follows. Neither composition nor the search for added tokens crosses a blank.
  size_t EncodeMatches(std::string_view text, std::vector<int32_t>* out) const {
    const size_t end = text.find_last_of(" \n");
    if (end == text.npos || !normalizer_.OnlyComposes() || patterns_[0].LooksBehind()) return 0;
    text = text.substr(0, end);
    // A following token may absorb the white space at the end.
    if (Strips()) text.remove_suffix(TrailingWhiteSpace(text));
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto push = [&](int32_t id) { out->push_back(id); };
    Cut cut = {.text = 0, .ids = out->size()};
    raw_added_.ForEach(
        text,
        [&](std::string_view part) {
          const std::string composed = normalizer_.empty() ? "" : normalizer_.Apply(part);
          const bool same = normalizer_.empty() || composed == part;
          const std::string_view all = same ? part : std::string_view(composed);
          const size_t begin = static_cast<size_t>(part.data() - text.data());
          const bool open = begin + part.size() == text.size();
          BlankPositions positions(all, part);
          normalized_added_.ForEach(
              all,
              [&](std::string_view plain) {
                const bool last = open && plain.data() + plain.size() == all.data() + all.size();
                EncodeRuns(plain, last, out, [&](const char* at) {
                  const auto place = static_cast<size_t>(at - all.data());
                  if (place == all.size() || !IsBlank(*at)) return;
                  cut = {.text = begin + (same ? place : positions.Of(place)), .ids = out->size()};
                });
              },
              push);
        },
        push);
    out->resize(cut.ids);
    return cut.text;
  }

  static bool IsBlank(char c) { return c == ' ' || c == '\n'; }

  // Maps blanks and newlines of a composed text to their positions in the original, which has the
  // same number of them.
  class BlankPositions {
   public:
    BlankPositions(std::string_view composed, std::string_view original)
        : composed_(composed), original_(original) {}

    // The original position of a blank in the composed text. Calls must be in ascending order.
    size_t Of(size_t place) {
      for (; counted_ <= place; ++counted_) {
        if (!IsBlank(composed_[counted_])) continue;
        while (!IsBlank(original_[next_])) ++next_;
        found_ = next_++;
      }
      return found_;
    }

   private:
    std::string_view composed_, original_;
    size_t counted_ = 0, next_ = 0, found_ = 0;
  };

  // Encodes text between added tokens like EncodePlain, and calls bound(place) for places between
  // pieces. If `last`, more text may follow, and pieces that depend on it are left out.
  template <typename Bound>
  void EncodeRuns(std::string_view text, bool last, std::vector<int32_t>* out, Bound bound) const {
    ForEachUtf8Run(text, [&](std::string_view run, bool valid) {
      // A run of bytes that are not UTF-8 ends before a blank.
      if (!valid) return EncodePiece(run, patterns_.size(), out);
      const bool open = last && run.data() + run.size() == text.data() + text.size();
      size_t at = 0, begin = 0, end = 0;
      while (at < run.size() && (open ? patterns_[0].FindWhateverFollows(run, at, &begin, &end)
                                      : patterns_[0].Find(run, at, &begin, &end))) {
        if (begin > at) EncodePiece(run.substr(at, begin - at), 1, out);
        if (begin > at) bound(run.data() + begin);
        EncodePiece(run.substr(begin, end - begin), 1, out);
        at = end;
        bound(run.data() + at);
      }
      if (!open && at < run.size()) EncodePiece(run.substr(at), 1, out);
    });
  }

  // Splits `piece` by patterns_[pattern] and the later patterns.
  void EncodePiece(std::string_view piece, size_t pattern, std::vector<int32_t>* out) const {
    if (pattern == patterns_.size()) {
      bpe_.Encode(piece, out);
      return;
    }
    size_t at = 0, begin = 0, end = 0;
    while (at < piece.size() && patterns_[pattern].Find(piece, at, &begin, &end)) {
      if (begin > at) EncodePiece(piece.substr(at, begin - at), pattern + 1, out);
      EncodePiece(piece.substr(begin, end - begin), pattern + 1, out);
      at = end;
    }
    if (at < piece.size()) EncodePiece(piece.substr(at), pattern + 1, out);
  }

  std::vector<std::string> tokens_;
  std::vector<bool> is_byte_;
  std::unordered_map<std::string, int32_t> ids_;
  AddedTokenFinder raw_added_, normalized_added_;
  // The tokens in normalized_added_, without the normaliser's prefix.
  std::vector<std::string> normalized_ends_;
  bool added_have_blanks_ = false;
  Normalizer normalizer_;
  std::optional<Metaspace> metaspace_;
  std::vector<SplitPattern> patterns_;
  bool strips_space_;
  mutable std::mutex mutex_;  // guards the scratch memory of patterns_ and bpe_
  mutable Bpe bpe_;
};

}  // namespace

void Normalizer::AddNfc() { steps_.push_back({Kind::kNfc, "", ""}); }

void Normalizer::AddPrepend(std::string prefix) {
  steps_.push_back({Kind::kPrepend, "", std::move(prefix)});
}

void Normalizer::AddReplace(std::string pattern, std::string content) {
  steps_.push_back({Kind::kReplace, std::move(pattern), std::move(content)});
}

bool Normalizer::OnlyComposes() const {
  return std::ranges::all_of(steps_, [](const Step& step) { return step.kind == Kind::kNfc; });
}

bool Normalizer::Composes() const {
  return std::ranges::any_of(steps_, [](const Step& step) { return step.kind == Kind::kNfc; });
}

bool Normalizer::Prepends() const {
  return std::ranges::any_of(steps_, [](const Step& step) { return step.kind == Kind::kPrepend; });
}

bool Normalizer::Removes(std::string_view pattern) const {
  if (steps_.empty() || Utf8Length(pattern) != pattern.size()) return false;
  const Step& last = steps_.back();
  return last.kind == Kind::kReplace && last.pattern == pattern &&
         last.content.find(pattern) == std::string::npos;
}

bool Normalizer::CutsBeforeBlanks() const {
  bool replaced = false;
  for (const Step& step : steps_) {
    if (step.kind == Kind::kNfc && replaced) return false;
    if (step.kind != Kind::kReplace) continue;
    if (Utf8Length(step.pattern) != step.pattern.size()) return false;
    replaced = true;
  }
  return true;
}

std::string Normalizer::Apply(std::string_view text, bool within) const {
  std::string out(text);
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Kind::kNfc:
        out = ToNfc(out);
        break;
      case Kind::kPrepend:
        if (!out.empty() && !within) out.insert(0, step.content);
        break;
      case Kind::kReplace:
        out = ReplaceAll(out, step.pattern, step.content);
        break;
    }
  }
  return out;
}

std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  while (true) {
    const size_t found = text.find(pattern);
    out += text.substr(0, found);
    if (found == std::string_view::npos) return out;
    out += content;
    text.remove_prefix(found + pattern.size());
  }
}

std::unique_ptr<Tokenizer> MakeBpeTokenizer(BpeDescription description) {
  return std::make_unique<BpeTokenizer>(std::move(description));
}

}  // namespace plimsoll::data
