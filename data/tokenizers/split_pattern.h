// Pre-tokenization: the regular expression by which a tokenizer splits text into pieces before
// merging, run by PCRE2. It is in the dialect of tokenizer files (Oniguruma, Rust), where `\s` is
// Unicode's White_Space. In PCRE2, `\s` also matches U+180E, so `\s` is expanded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll::data {

// GPT-2's split pattern (Radford et al. 2019, encoder.py).
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class SplitPattern {
 public:
  // `where` names the file and field in the UserError for an invalid pattern.
  SplitPattern(std::string_view pattern, const std::string& where);
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  // Finds the first non-empty match in text[from, …); returns false if none exists. `text` must be
  // well-formed UTF-8. Uses the pattern's scratch memory, so only one thread may call it at a time.
  bool Find(std::string_view text, size_t from, size_t* begin, size_t* end) const;

  // Finds the match if more text may follow `text`. Returns false if no match exists, or if the
  // match depends on the text that follows.
  bool FindWhateverFollows(std::string_view text, size_t from, size_t* begin, size_t* end) const;

  // Whether a match can depend on the text before `from`.
  bool LooksBehind() const;

 private:
  bool Match(std::string_view text, size_t from, uint32_t kind, size_t* begin, size_t* end) const;

  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace plimsoll::data
