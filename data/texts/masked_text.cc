#include "data/texts/masked_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "data/tokens/token_source.h"

namespace plimsoll::data {
namespace {

// Streams of random numbers drawn from one key.
constexpr uint64_t kChoiceStream = 1, kKindStream = 2, kTokenStream = 3;

double Uniform(uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

// Streams of random numbers drawn from a sample's key.
constexpr uint64_t kMaskStream = 1, kFollowsStream = 2, kCutStream = 3, kOtherStream = 4;

// The number of draws of a text from another document, after which the longest text drawn is taken.
constexpr uint64_t kTries = 8;

}  // namespace

TokenMasking::TokenMasking(const MaskingOptions& options, const MarkerTokens& markers,
                           int64_t vocab, std::vector<bool> continues)
    : options_(options),
      mask_(markers.mask),
      special_(markers.special),
      continues_(std::move(continues)),
      vocab_(vocab) {}

bool TokenMasking::IsSpecial(int32_t token) const {
  return std::ranges::binary_search(special_, token);
}

bool TokenMasking::Continues(int32_t token) const {
  const auto id = static_cast<size_t>(token);
  return id < continues_.size() && continues_[id];
}

int32_t TokenMasking::Replaced(uint64_t key, int32_t token) const {
  const double kind = Uniform(Hash(key, kKindStream));
  if (kind < options_.mask_share) return mask_;
  if (kind >= options_.mask_share + options_.random_share) return token;
  // Draws the n-th token that is not special.
  const auto plain = static_cast<uint64_t>(vocab_ - std::ssize(special_));
  auto drawn = static_cast<int32_t>(Below(Hash(key, kTokenStream), plain));
  for (const int32_t special : special_) drawn += drawn >= special ? 1 : 0;
  return drawn;
}

int64_t TokenMasking::Apply(uint64_t key, std::span<int32_t> tokens,
                            std::span<int32_t> targets) const {
  std::ranges::fill(targets, kIgnoredTarget);
  // A unit is a token, or all pieces of a word. Pieces of a word whose beginning was cut off are a
  // unit, too.
  int64_t left = 0;  // the number of units not yet visited
  bool within = false;
  for (const int32_t token : tokens) {
    const bool special = IsSpecial(token);
    left += !special && !(within && Continues(token)) ? 1 : 0;
    within = !special;
  }
  if (left == 0) return 0;
  // Selection sampling (Knuth, volume 2, algorithm 3.4.2 S): every choice of `wanted` units has the
  // same probability.
  int64_t wanted =
      std::clamp<int64_t>(std::llround(options_.fraction * static_cast<double>(left)), 1, left);
  int64_t count = 0;
  bool chosen = false;
  within = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t token = tokens[i];
    const bool special = IsSpecial(token);
    if (!special && !(within && Continues(token))) {
      const uint64_t draw = Hash(key, kChoiceStream, i);
      chosen = static_cast<int64_t>(Below(draw, static_cast<uint64_t>(left))) < wanted;
      wanted -= chosen ? 1 : 0;
      --left;
    }
    within = !special;
    if (special || !chosen) continue;
    if (!targets.empty()) targets[i] = token;
    tokens[i] = Replaced(Hash(key, i), token);
    ++count;
  }
  return count;
}

MaskedText::MaskedText(SourceList sources, MaskedTextForm form, const std::string& key)
    : form_(std::move(form)), stream_(std::move(sources)) {
  room_ = form_.sequence - (form_.pairs ? 3 : 2);
  if (room_ < 2) {
    throw UserError(
        fmt::format("model.sequence: {} leaves no room for text between the special "
                    "tokens; give 5 or more",
                    form_.sequence));
  }
  size_ = stream_.size();
  if (size_ > 0 && form_.of_documents) {
    int32_t last = 0;
    stream_.Read(size_ - 1, 1, &last);
    if (last == form_.document_end) --size_;  // each sample adds its own document end
  }
  if (size_ == 0) throw UserError(key + ": holds no tokens; name files with text");
  pieces_ = (size_ + room_ - 1) / room_;
  if (form_.pairs && form_.of_documents) FindDocuments(key);
}

void MaskedText::FindDocuments(const std::string& key) {
  std::vector<int32_t> tokens(size_t{1} << 16);
  int64_t start = 0;
  pieces_ = 0;
  const auto end_at = [&](int64_t end) {
    if (end > start) {
      documents_.push_back({start, end - start, pieces_});
      pieces_ += (end - start + room_ - 1) / room_;
    }
    start = end + 1;
  };
  for (int64_t at = 0; at < size_; at += std::ssize(tokens)) {
    const int64_t count = std::min(std::ssize(tokens), size_ - at);
    stream_.Read(at, count, tokens.data());
    for (int64_t i = 0; i < count; ++i) {
      if (tokens[static_cast<size_t>(i)] == form_.document_end) end_at(at + i);
    }
  }
  end_at(size_);
  if (documents_.size() >= 2) return;
  throw UserError(
      fmt::format("{}: data.pairs needs two documents at least, and there is {}; name "
                  "more files, or the line that parts documents in "
                  "data.document_separator",
                  key, documents_.size()));
}

double MaskedText::padding() const {
  // Counts tokens of text, and the special tokens of each sample.
  int64_t text = size_;
  if (!documents_.empty()) {
    text = 0;
    for (const Document& document : documents_) text += document.size;
  }
  const double used =
      static_cast<double>(text) + static_cast<double>(pieces_ * (form_.sequence - room_));
  return 1 - used / (static_cast<double>(pieces_) * static_cast<double>(form_.sequence));
}

MaskedText::Piece MaskedText::PieceAt(int64_t number) const {
  Document document = {.start = 0, .size = size_, .first_piece = 0};
  int64_t index = 0;
  if (!documents_.empty()) {
    const auto after = std::ranges::upper_bound(documents_, number, {}, &Document::first_piece);
    index = after - documents_.begin() - 1;
    document = documents_[static_cast<size_t>(index)];
  }
  const int64_t begin = (number - document.first_piece) * room_;
  const int64_t size = std::min(room_, document.size - begin);
  Piece piece = {.start = document.start + begin,
                 .size = size,
                 .document = index,
                 .document_end = document.start + document.size};
  if (!form_.of_documents) {
    piece.document = number;
  }
  return piece;
}

bool MaskedText::BeginsWord(int32_t token) const {
  const auto id = static_cast<size_t>(token);
  return id >= form_.continues.size() || !form_.continues[id];
}

bool MaskedText::EndsSentence(int32_t token) const {
  return std::ranges::binary_search(form_.sentence_ends, token);
}

// Chooses where the text is cut in two, with at least one token on either side: after a random
// sentence end, or else between two random words, or else in the middle.
int64_t MaskedText::Cut(std::span<const int32_t> tokens, uint64_t random) const {
  const auto is_place = [&](size_t i, bool sentence) {
    return BeginsWord(tokens[i]) && !EndsSentence(tokens[i]) &&
           (!sentence || EndsSentence(tokens[i - 1]));
  };
  for (const bool sentence : {true, false}) {
    uint64_t places = 0;
    for (size_t i = 1; i < tokens.size(); ++i) places += is_place(i, sentence) ? 1 : 0;
    if (places == 0) continue;
    uint64_t wanted = Below(random, places);
    for (size_t i = 1; i < tokens.size(); ++i) {
      if (is_place(i, sentence) && wanted-- == 0) return static_cast<int64_t>(i);
    }
  }
  return std::ssize(tokens) / 2;
}

// Draws a text from another document. It begins where a random piece of that document could be cut,
// and has `size` tokens or as many as follow that place. `scratch` must have room for a piece.
MaskedText::Piece MaskedText::OtherText(const Piece& piece, int64_t size, uint64_t key,
                                        std::span<int32_t> scratch) const {
  Piece best;
  for (uint64_t i = 0; i < kTries && best.size < size; ++i) {
    const uint64_t random = Hash(key, i);
    Piece other = PieceAt(static_cast<int64_t>(Below(random, static_cast<uint64_t>(pieces_))));
    if (other.document == piece.document) continue;
    const auto tokens = scratch.first(static_cast<size_t>(other.size));
    stream_.Read(other.start, other.size, tokens.data());
    if (other.size > 1) other.start += Cut(tokens, Mix(random));
    other.size = std::min(size, other.document_end - other.start);
    if (other.size > best.size) best = other;
  }
  if (best.size > 0) return best;
  // If all draws hit the piece's own document, that document is nearly the complete text.
  const int64_t count = std::max<int64_t>(documents(), 1);
  best = documents_.empty()
             ? piece
             : PieceAt(documents_[static_cast<size_t>((piece.document + 1) % count)].first_piece);
  best.size = std::min(size, best.size);
  return best;
}

// Fills a row without pairs, and returns the number of tokens.
int64_t MaskedText::PlainRow(int64_t number, std::span<int32_t> tokens) const {
  const Piece piece = PieceAt(number);
  stream_.Read(piece.start, piece.size, tokens.data() + 1);
  tokens[0] = form_.markers.start;
  tokens[static_cast<size_t>(piece.size) + 1] = form_.markers.separator;
  return piece.size + 2;
}

MaskedText::PairLengths MaskedText::PairRow(int64_t number, uint64_t key,
                                            std::span<int32_t> tokens) const {
  const Piece piece = PieceAt(number);
  PairLengths lengths = {.first = piece.size, .second = 1};
  int32_t* const text = tokens.data() + 1;
  stream_.Read(piece.start, piece.size, text);
  // A piece of a single token cannot be cut, so it has no following part.
  lengths.follows = piece.size > 1 && (Hash(key, kFollowsStream) & 1) == 0;
  if (piece.size > 1) {
    lengths.first = Cut({text, static_cast<size_t>(piece.size)}, Hash(key, kCutStream));
    lengths.second = piece.size - lengths.first;
  }
  Piece second = {.start = piece.start + lengths.first, .size = lengths.second};
  if (!lengths.follows) {
    second = OtherText(piece, lengths.second, Hash(key, kOtherStream), tokens);
    lengths.second = second.size;
    // Reads the first text again, because OtherText has overwritten it.
    stream_.Read(piece.start, lengths.first, text);
  }
  int32_t* const second_text = text + lengths.first + 1;
  stream_.Read(second.start, second.size, second_text);
  tokens[0] = form_.markers.start;
  text[lengths.first] = second_text[lengths.second] = form_.markers.separator;
  return lengths;
}

int64_t MaskedText::FillRow(int64_t piece, uint64_t key, const MaskedRow& row) const {
  int64_t length = 0, first = 0;  // `first`: number of positions with token type 0
  if (form_.pairs) {
    const PairLengths pair = PairRow(piece, key, row.tokens);
    first = pair.first + 2;
    length = first + pair.second + 1;
    if (!row.next_sentence.empty()) row.next_sentence[0] = pair.follows ? 0 : 1;
  } else {
    first = length = PlainRow(piece, row.tokens);
  }
  const auto used = static_cast<size_t>(length);
  std::ranges::fill(row.tokens.subspan(used), form_.markers.pad);
  if (!row.length.empty()) row.length[0] = static_cast<int32_t>(length);
  if (!row.token_types.empty()) {
    std::ranges::fill(row.token_types, 0);
    std::fill(row.token_types.begin() + first, row.token_types.begin() + length, 1);
  }
  std::span<int32_t> targets;
  if (!row.targets.empty()) {
    targets = row.targets.first(used);
    std::ranges::fill(row.targets.subspan(used), kIgnoredTarget);
  }
  return form_.masking.Apply(Hash(key, kMaskStream), row.tokens.first(used), targets);
}

void MaskedText::FillEmptyRow(const MaskedRow& row) const {
  std::ranges::fill(row.tokens, form_.markers.pad);
  std::ranges::fill(row.targets, kIgnoredTarget);
  std::ranges::fill(row.token_types, 0);
  std::ranges::fill(row.length, 1);
  std::ranges::fill(row.next_sentence, -1);
}

}  // namespace plimsoll::data
