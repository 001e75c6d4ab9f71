#include "data/tokenizers/wordpiece_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "data/tokenizers/unicode.h"
#include "data/tokenizers/wordpiece.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kReportEvery = 1000;  // tokens between progress reports

// A word, split into pieces of the vocabulary (by id), and its count. A merge joins two pieces.
struct Word {
  std::vector<int32_t> pieces;
  int64_t count = 0;
};

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    return std::hash<uint64_t>()(static_cast<uint64_t>(pair.first) << 32 |
                                 static_cast<uint32_t>(pair.second));
  }
};

// A pair with its count at some time, which may be outdated.
struct Candidate {
  int64_t count = 0;
  Pair pair;
  // Order of the heap: the most frequent pair first, then the first one in the vocabulary.
  bool operator<(const Candidate& other) const {
    return std::tie(count, other.pair) < std::tie(other.count, pair);
  }
};

class Merger {
 public:
  explicit Merger(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
    for (size_t id = 0; id < tokens_.size(); ++id) {
      ids_[tokens_[id]] = static_cast<int32_t>(id);
    }
  }

  // Adds a word; all its characters must have tokens.
  void Add(std::string_view word, int64_t count) {
    Word cut = {.pieces = {}, .count = count};
    ForEachCodePoint(word, [&](std::string_view character, char32_t) {
      std::string piece(cut.pieces.empty() ? "" : kContinuation);
      piece += character;
      cut.pieces.push_back(ids_.at(piece));
    });
    words_.push_back(std::move(cut));
  }

  void Run(const WordPieceTraining& options, const std::function<void(int64_t)>& progress) {
    for (size_t word = 0; word < words_.size(); ++word) CountPairs(word, 1);
    for (const auto& [pair, count] : counts_) heap_.push({count, pair});
    changed_.clear();
    while (std::ssize(tokens_) < options.size && !heap_.empty()) {
      const Candidate top = heap_.top();
      heap_.pop();
      const int64_t count = counts_.at(top.pair);
      if (count != top.count) {
        // The pair has become less frequent since it was pushed. Pairs that became more frequent
        // were pushed again at that time.
        if (count > 0 && count < top.count) heap_.push({count, top.pair});
        continue;
      }
      if (count < options.least_count) break;
      Merge(top.pair);
      if (progress && std::ssize(tokens_) % kReportEvery == 0) progress(std::ssize(tokens_));
    }
  }

  std::vector<std::string> Take() { return std::move(tokens_); }

 private:
  // Counts the pairs of a word; with sign −1, subtracts them.
  void CountPairs(size_t number, int64_t sign) {
    const Word& word = words_[number];
    for (size_t i = 0; i + 1 < word.pieces.size(); ++i) {
      const Pair pair = {word.pieces[i], word.pieces[i + 1]};
      counts_[pair] += sign * word.count;
      if (sign > 0) {
        std::vector<uint32_t>& places = places_[pair];
        if (places.empty() || places.back() != number) {
          places.push_back(static_cast<uint32_t>(number));
        }
        changed_.insert(pair);
      }
    }
  }

  void Merge(const Pair& pair) {
    std::string joined = tokens_[static_cast<size_t>(pair.first)] +
                         tokens_[static_cast<size_t>(pair.second)].substr(kContinuation.size());
    // Two different pairs can give the same piece: a + ##bc, ab + ##c.
    const auto [known, is_new] = ids_.emplace(joined, static_cast<int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(std::move(joined));
    const std::vector<uint32_t> places = std::move(places_[pair]);
    places_.erase(pair);
    for (const uint32_t number : places) {
      std::vector<int32_t>& pieces = words_[number].pieces;
      if (!Holds(pieces, pair)) continue;  // an earlier merge has removed the pair
      CountPairs(number, -1);
      size_t out = 0;
      for (size_t i = 0; i < pieces.size(); ++out) {
        const bool meets = i + 1 < pieces.size() && Pair(pieces[i], pieces[i + 1]) == pair;
        pieces[out] = meets ? known->second : pieces[i];
        i += meets ? 2 : 1;
      }
      pieces.resize(out);
      CountPairs(number, 1);
    }
    for (const Pair& changed : changed_) heap_.push({counts_.at(changed), changed});
    changed_.clear();
  }

  static bool Holds(const std::vector<int32_t>& pieces, const Pair& pair) {
    for (size_t i = 0; i + 1 < pieces.size(); ++i) {
      if (Pair(pieces[i], pieces[i + 1]) == pair) return true;
    }
    return false;
  }

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<Pair, int64_t, PairHash> counts_;
  // For each pair, the words that contained it when it was last counted there; a word may occur
  // several times.
  std::unordered_map<Pair, std::vector<uint32_t>, PairHash> places_;
  std::unordered_set<Pair, PairHash> changed_;  // pairs whose count has changed
  std::priority_queue<Candidate> heap_;
};

// The `most` most frequent characters of the words; among equally frequent ones, those with the
// lowest code points.
std::map<char32_t, std::string> CharactersOf(const WordCounts& counts, int64_t most) {
  std::map<char32_t, std::pair<int64_t, std::string>> found;
  for (const auto& [word, count] : counts.words()) {
    ForEachCodePoint(word, [&](std::string_view sequence, char32_t code) {
      auto& [times, character] = found[code];
      times += count;
      character = sequence;
    });
  }
  std::vector<std::pair<int64_t, char32_t>> by_count;
  for (const auto& [code, entry] : found) by_count.emplace_back(-entry.first, code);
  std::ranges::sort(by_count);
  by_count.resize(std::min(by_count.size(), static_cast<size_t>(most)));
  std::map<char32_t, std::string> characters;
  for (const auto& [count, code] : by_count) characters[code] = found[code].second;
  return characters;
}

}  // namespace

void WordCounts::Add(std::string_view text) {
  const std::string lowered = options_.lower_case ? ToLower(text) : std::string(text);
  ForEachSpaced(CleanForWords(lowered, options_), [&](std::string_view spaced) {
    for (std::string& word : SplitAtPunctuation(WithoutAccents(spaced, options_))) {
      ++counts_[std::move(word)];
    }
  });
}

std::vector<std::string> TrainWordPieces(const WordCounts& counts, const WordPieceTraining& options,
                                         const std::function<void(int64_t tokens)>& progress) {
  const std::map<char32_t, std::string> characters = CharactersOf(counts, options.characters);
  // Words are sorted by their bytes, so that nothing depends on the order of a hash table.
  std::vector<std::pair<std::string_view, int64_t>> words;
  std::set<char32_t> continuing;
  for (const auto& [word, count] : counts.words()) {
    bool whole = true;
    ForEachCodePoint(
        word, [&](std::string_view, char32_t code) { whole = whole && characters.contains(code); });
    if (!whole) continue;
    words.emplace_back(word, count);
    bool first = true;
    ForEachCodePoint(word, [&](std::string_view, char32_t code) {
      if (!std::exchange(first, false)) continuing.insert(code);
    });
  }
  std::ranges::sort(words);
  std::vector<std::string> tokens(std::begin(kBertSpecialTokens), std::end(kBertSpecialTokens));
  for (const auto& [code, character] : characters) tokens.push_back(character);
  for (const char32_t code : continuing) {
    tokens.push_back(std::string(kContinuation) + characters.at(code));
  }
  if (std::ssize(tokens) > options.size) {
    throw UserError(fmt::format(
        "--size {}: the special tokens and {} characters, {} of them also within words, take {}; "
        "give more, or lower --characters",
        options.size, characters.size(), continuing.size(), tokens.size()));
  }
  Merger merger(std::move(tokens));
  for (const auto& [word, count] : words) merger.Add(word, count);
  merger.Run(options, progress);
  return merger.Take();
}

}  // namespace plimsoll::data
