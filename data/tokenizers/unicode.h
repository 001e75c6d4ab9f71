// UTF-8, and properties and forms of Unicode text, for the version of Unicode that utf8proc has
// (15.0 with utf8proc 2.8). Bytes that are not UTF-8 stay as they are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::data {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The code point of a well-formed UTF-8 sequence.
char32_t CodePoint(std::string_view sequence);

// The length of the well-formed UTF-8 sequence that `text` starts with; 0 without one, or if
// it is cut off, in which case `*incomplete` is set.
size_t Utf8Length(std::string_view text, bool* incomplete = nullptr);

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

// Outputs bytes as whole UTF-8 sequences: holds back an incomplete sequence, and puts U+FFFD for
// bytes that are not UTF-8.
class Utf8Stream {
 public:
  std::string Push(std::string_view bytes);
  std::string Finish();  // the bytes held back, as U+FFFD

 private:
  std::string pending_;
};

std::string ToNfc(std::string_view text);  // canonical composition
std::string ToNfd(std::string_view text);  // canonical decomposition

// Each character by itself, as Python's str.lower() makes it: U+0130 becomes two characters, and
// a sigma that ends a word becomes σ.
std::string ToLower(std::string_view text);

// The general category, two letters: "Lu", or "Cn" for a code point that is not assigned.
std::string_view CategoryOf(char32_t code);

bool IsAscii(std::string_view text);

// The first and the last character; kNoCharacter for a byte that is not UTF-8, or no text.
inline constexpr char32_t kNoCharacter = 0xffffffff;
char32_t FirstCharacter(std::string_view text);
char32_t LastCharacter(std::string_view text);

// White_Space, as `\s` is in Hugging Face's tokenizers.
bool IsWhiteSpace(char32_t code);
// The bytes of white space that the text begins or ends with.
size_t LeadingWhiteSpace(std::string_view text);
size_t TrailingWhiteSpace(std::string_view text);

// Whether the text's first or last character is one of words, as `\w` is in Hugging Face's
// tokenizers: letters, marks, digits, numbers that are letters, and what connects words.
bool StartsWithWord(std::string_view text);
bool EndsWithWord(std::string_view text);

// Calls visit(sequence, code) for each well-formed sequence; other bytes are passed over.
template <typename Visit>
void ForEachCodePoint(std::string_view text, Visit visit) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    if (length > 0) {
      const std::string_view sequence = text.substr(i, length);
      visit(sequence, CodePoint(sequence));
    }
    i += length > 0 ? length : 1;
  }
}

}  // namespace plimsoll::data
