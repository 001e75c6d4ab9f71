// How BERT splits a text into words, before each word is split into pieces of a vocabulary: equal
// to Hugging Face's BertTokenizer (its BasicTokenizer). The steps are:
//   1 control characters (every category C*, so also unassigned code points), U+0000 and U+FFFD are
//     removed, and so are bytes that are not UTF-8; white space becomes a space; Chinese characters
//     become words of their own
//   2 canonical composition (NFC), then words end at spaces
//   3 within a word, accents are removed (NFD without Mn), and every punctuation character becomes
//   a
//     word of its own: the categories P* and all ASCII symbols
// Lower-casing (ToLower in unicode.h) is done before these steps, since spelled-out tokens are
// searched for in between.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::data {

struct BertWordOptions {
  bool lower_case = true;
  bool strip_accents = true;
  bool split_chinese = true;
};

// Steps 1 and 2. Words are separated by spaces; the result may begin and end with spaces.
std::string CleanForWords(std::string_view text, const BertWordOptions& options);

// Calls visit(word) for each part between spaces.
template <typename Visit>
void ForEachSpaced(std::string_view cleaned, Visit visit) {
  while (true) {
    const size_t begin = cleaned.find_first_not_of(' ');
    if (begin == cleaned.npos) return;
    cleaned.remove_prefix(begin);
    const size_t end = std::min(cleaned.find(' '), cleaned.size());
    visit(cleaned.substr(0, end));
    cleaned.remove_prefix(end);
  }
}

// Step 3, for text between two spaces: WithoutAccents removes accents if the options say so, then
// SplitAtPunctuation splits the result into words.
std::string WithoutAccents(std::string_view spaced, const BertWordOptions& options);
std::vector<std::string> SplitAtPunctuation(std::string_view text);

}  // namespace plimsoll::data
