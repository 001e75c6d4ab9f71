#include "trainer/data/bpe_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace plimsoll::data {
namespace {

// Finds the leftmost, then longest, of a set of strings.
class AddedTokenFinder {
 public:
  void Add(std::string content, int32_t id) {
    auto& bucket = by_first_[static_cast<uint8_t>(content[0])];
    bucket.emplace_back(std::move(content), id);
  }
  void Sort() {
    for (auto& bucket : by_first_) {
      std::stable_sort(bucket.begin(), bucket.end(), [](const auto& a, const auto& b) {
        return a.first.size() > b.first.size();
      });
    }
  }

  // Calls text(part) and token(id) for the parts of `text`, in order.
  template <typename OnText, typename OnToken>
  void ForEach(std::string_view text, OnText on_text, OnToken on_token) const {
    size_t begin = 0;
    for (size_t i = 0; i < text.size();) {
      const Entry* found = Match(text, i);
      if (found == nullptr) {
        ++i;
        continue;
      }
      if (i > begin) on_text(text.substr(begin, i - begin));
      on_token(found->second);
      i += found->first.size();
      begin = i;
    }
    if (begin < text.size()) on_text(text.substr(begin));
  }

 private:
  using Entry = std::pair<std::string, int32_t>;

  const Entry* Match(std::string_view text, size_t at) const {
    for (const Entry& entry : by_first_[static_cast<uint8_t>(text[at])]) {
      if (text.compare(at, entry.first.size(), entry.first) == 0) return &entry;
    }
    return nullptr;
  }

  std::array<std::vector<Entry>, 256> by_first_;
};

// Calls visit(run, valid) for maximal runs of well-formed UTF-8 and of other bytes.
template <typename Visit>
void ForEachUtf8Run(std::string_view text, Visit visit) {
  size_t begin = 0;
  bool run_valid = true;
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    const bool valid = length > 0;
    if (valid != run_valid) {
      if (i > begin) visit(text.substr(begin, i - begin), run_valid);
      begin = i;
      run_valid = valid;
    }
    i += valid ? length : 1;
  }
  if (begin < text.size()) visit(text.substr(begin), run_valid);
}

std::string Nfc(std::string_view text) {
  std::string out;
  ForEachUtf8Run(text, [&](std::string_view run, bool valid) {
    const bool ascii =
        std::all_of(run.begin(), run.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
    if (!valid || ascii) {
      out += run;
      return;
    }
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()),
                     static_cast<utf8proc_ssize_t>(run.size()), &mapped,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (size < 0) throw InternalError(std::string("NFC: ") + utf8proc_errmsg(size));
    out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
    std::free(mapped);
  });
  return out;
}

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeDescription description)
      : tokens_(std::move(description.tokens)),
        patterns_(std::move(description.patterns)),
        nfc_(description.nfc),
        bpe_(std::move(description.model)) {
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!tokens_[id].empty()) ids_.emplace(tokens_[id], static_cast<int32_t>(id));
    }
    for (AddedToken& token : description.added) {
      ids_[token.content] = token.id;
      if (token.normalized) {
        normalized_added_.Add(nfc_ ? Nfc(token.content) : token.content, token.id);
      } else {
        raw_added_.Add(token.content, token.id);
      }
    }
    raw_added_.Sort();
    normalized_added_.Sort();
  }

  void Encode(std::string_view text, std::vector<int32_t>* out) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto push = [&](int32_t id) { out->push_back(id); };
    raw_added_.ForEach(
        text,
        [&](std::string_view part) {
          const std::string normalized = nfc_ ? Nfc(part) : std::string();
          normalized_added_.ForEach(
              nfc_ ? std::string_view(normalized) : part,
              [&](std::string_view plain) {
                ForEachUtf8Run(plain, [&](std::string_view run, bool valid) {
                  EncodePiece(run, valid ? 0 : patterns_.size(), out);
                });
              },
              push);
        },
        push);
  }

  void Decode(int32_t id, std::string* out) const override {
    if (id < 0 || id >= static_cast<int64_t>(tokens_.size()) || tokens_[id].empty()) {
      out->append("\xEF\xBF\xBD");
    } else {
      out->append(tokens_[id]);
    }
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }

  std::optional<int32_t> TokenId(std::string_view token) const override {
    const auto found = ids_.find(std::string(token));
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

 private:
  // Splits `piece` by patterns_[pattern] and those after it.
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
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<SplitPattern> patterns_;
  AddedTokenFinder raw_added_, normalized_added_;
  bool nfc_;
  mutable std::mutex mutex_;  // guards the scratch memory of patterns_ and bpe_
  mutable Bpe bpe_;
};

}  // namespace

std::unique_ptr<Tokenizer> MakeBpeTokenizer(BpeDescription description) {
  return std::make_unique<BpeTokenizer>(std::move(description));
}

}  // namespace plimsoll::data
