// Byte-pair encoding of one piece of text.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "data/tokenizers/bpe_tokenizer.h"
#include "data/tokenizers/unicode.h"

namespace plimsoll::data {
namespace {

// Caches up to kSeenPieces words of up to kSeenBytes bytes (about 15 MB).
constexpr size_t kSeenBytes = 48, kSeenPieces = size_t{1} << 17;
constexpr size_t kLongestPiece = size_t{1} << 30;

uint64_t Pair(int32_t left, int32_t right) {
  return PairOf(static_cast<uint32_t>(left), static_cast<uint32_t>(right));
}

// Calls visit(character, code point) for each character. The code point of a byte that is not UTF-8
// is kNone.
constexpr char32_t kNone = 0xffffffff;
template <typename Visit>
void ForEachCharacter(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    visit(character, length == 0 ? kNone : CodePoint(character));
    text.remove_prefix(character.size());
  }
}

}  // namespace

Bpe::Bpe(BpeModel model) : model_(std::move(model)) {
  table_.resize(std::bit_ceil(2 * model_.merges.size() + 2));
  const size_t mask = table_.size() - 1;
  int32_t rank = 0;
  for (const BpeMerge& merge : model_.merges) {
    const uint64_t pair = Pair(merge.left, merge.right);
    size_t i = Mix(pair) & mask;
    while (table_[i].rank >= 0 && table_[i].pair != pair) i = (i + 1) & mask;
    table_[i].pair = pair;
    table_[i].rank = rank++;
    table_[i].merged = merge.merged;
  }
}

const Bpe::Slot* Bpe::Find(int32_t left, int32_t right) const {
  const uint64_t pair = Pair(left, right);
  const size_t mask = table_.size() - 1;
  for (size_t i = Mix(pair) & mask; table_[i].rank >= 0; i = (i + 1) & mask) {
    if (table_[i].pair == pair) return &table_[i];
  }
  return nullptr;
}

void Bpe::Encode(std::string_view piece, std::vector<int32_t>* out) {
  if (model_.character_ids.empty()) {
    EncodeWord(piece, out);
    return;
  }
  const char* begin = piece.data();
  char32_t previous = kNone;
  ForEachCharacter(piece, [&](std::string_view character, char32_t code) {
    if (!model_.joints.contains(PairOf(previous, code))) {
      EncodeWord({begin, character.data()}, out);
      begin = character.data();
    }
    previous = code;
  });
  EncodeWord({begin, piece.data() + piece.size()}, out);
}

void Bpe::EncodeWord(std::string_view word, std::vector<int32_t>* out) {
  if (word.empty()) return;
  if (word.size() > kSeenBytes) {
    Merge(word, out);
    return;
  }
  const auto seen = seen_.find(word);
  if (seen != seen_.end()) {
    out->insert(out->end(), seen->second.begin(), seen->second.end());
    return;
  }
  const size_t before = out->size();
  Merge(word, out);
  if (seen_.size() >= kSeenPieces) seen_.clear();
  seen_.emplace(word, std::vector<int32_t>(out->begin() + before, out->end()));
}

void Bpe::PushCandidate(int32_t position) {
  const Symbol& left = symbols_[position];
  if (left.next < 0) return;
  const Slot* slot = Find(left.id, symbols_[left.next].id);
  if (slot == nullptr) return;
  Candidate candidate;
  candidate.rank = slot->rank;
  candidate.position = position;
  candidate.merged = slot->merged;
  candidates_.push_back(candidate);
  std::push_heap(candidates_.begin(), candidates_.end(), Later());
}

void Bpe::AppendSymbols(std::string_view word) {
  const auto append_byte = [&](char byte) {
    symbols_.push_back({.id = model_.byte_ids[static_cast<uint8_t>(byte)]});
  };
  if (model_.character_ids.empty()) {
    for (const char byte : word) append_byte(byte);
    return;
  }
  ForEachCharacter(word, [&](std::string_view character, char32_t code) {
    const auto found = model_.character_ids.find(code);
    if (found != model_.character_ids.end()) {
      symbols_.push_back({.id = found->second});
    } else {
      for (const char byte : character) append_byte(byte);
    }
  });
}

void Bpe::Merge(std::string_view word, std::vector<int32_t>* out) {
  if (!model_.whole_pieces.empty()) {
    const auto whole = model_.whole_pieces.find(std::string(word));
    if (whole != model_.whole_pieces.end()) {
      out->push_back(whole->second);
      return;
    }
  }
  if (word.size() > kLongestPiece) {
    throw UserError(fmt::format(
        "tokenize: {} bytes without a place to split; break the text into lines", word.size()));
  }
  symbols_.clear();
  AppendSymbols(word);
  const auto size = static_cast<int32_t>(symbols_.size());
  for (int32_t i = 0; i < size; ++i) {
    symbols_[i].previous = i - 1;
    symbols_[i].next = i + 1 < size ? i + 1 : -1;
  }
  candidates_.clear();
  for (int32_t i = 0; i < size; ++i) PushCandidate(i);
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), Later());
    const Candidate top = candidates_.back();
    candidates_.pop_back();
    // The candidate is stale unless the pair at its position still has its rank.
    Symbol& left = symbols_[top.position];
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = symbols_[left.next];
    const Slot* slot = Find(left.id, right.id);
    if (slot == nullptr || slot->rank != top.rank) continue;
    left.id = top.merged;
    left.next = right.next;
    if (right.next >= 0) symbols_[right.next].previous = top.position;
    right.id = -1;
    PushCandidate(top.position);
    if (left.previous >= 0) PushCandidate(left.previous);
  }
  for (int32_t i = 0; i >= 0; i = symbols_[i].next) out->push_back(symbols_[i].id);
}

}  // namespace plimsoll::data
