// Pre-tokenization: the regular expression that a tokenizer uses to cut text into pieces before
// merging, run by PCRE2. Takes the dialect of tokenizer files (Oniguruma, Rust), where `\s` is
// Unicode's White_Space. PCRE2 adds U+180E to that, so `\s` is spelled out for it.
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
  // `where` names the file and field in the UserError for a pattern that is not understood.
  SplitPattern(std::string_view pattern, const std::string& where);
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  // Finds the first non-empty match in text[from, …); false if there is none. `text` is well-formed
  // UTF-8. Uses the pattern's scratch memory, so only one thread may call it at a time.
  bool Find(std::string_view text, size_t from, size_t* begin, size_t* end) const;

  // The same in a text of which `text` is the beginning: true if it is found whatever follows.
  // false: there is none, or it depends on what follows.
  bool FindWhateverFollows(std::string_view text, size_t from, size_t* begin, size_t* end) const;

  // Whether a match depends on what lies before `from`.
  bool LooksBehind() const;

 private:
  bool Match(std::string_view text, size_t from, uint32_t kind, size_t* begin, size_t* end) const;

  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace plimsoll::data
