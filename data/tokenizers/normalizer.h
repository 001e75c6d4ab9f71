// A tokenizer's changes to text before it looks for words: canonical composition, replacements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::data {

// Steps, applied in the order in which they were added. Bytes that are not UTF-8 are kept.
class Normalizer {
 public:
  void AddNfc();                                              // Unicode's normal form C
  void AddPrepend(std::string prefix);                        // before a text that is not empty
  void AddReplace(std::string pattern, std::string content);  // every `pattern`, which is not empty

  bool empty() const { return steps_.empty(); }
  // Whether composition is all that it does: blanks and newlines then stay, in number and order.
  bool OnlyComposes() const;
  bool Composes() const;
  bool Prepends() const;
  // Whether text that is cut before a blank or a newline becomes the same as in one: composition
  // comes first, and replacements are of single characters.
  bool CutsBeforeBlanks() const;
  // `within`: the text continues another one, so that no prefix is added.
  std::string Apply(std::string_view text, bool within = false) const;

 private:
  enum class Kind { kNfc, kPrepend, kReplace };
  struct Step {
    Kind kind;
    std::string pattern, content;
  };
  std::vector<Step> steps_;
};

// `text` with every occurrence of `pattern` replaced, from left to right.
std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content);

}  // namespace plimsoll::data
