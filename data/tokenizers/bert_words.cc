#include "data/tokenizers/bert_words.h"

#include <utility>

#include "data/tokenizers/unicode.h"

namespace plimsoll::data {
namespace {

bool IsSpace(char32_t code) {
  if (code < 0x80) return code == ' ' || code == '\t' || code == '\n' || code == '\r';
  // BertTokenizer keeps characters of Zl and Zp (one each), but ends words there, which is the
  // same.
  return CategoryOf(code).front() == 'Z';
}

bool IsRemoved(char32_t code) {
  if (code < 0x80) return code < ' ' || code == 0x7f;
  return code == 0xFFFD || CategoryOf(code).front() == 'C';
}

// The blocks of CJK Unified Ideographs and of their compatibility forms that BERT treats as Chinese
// (Devlin et al. 2019, multilingual models). Hangul and Kana are not among them.
bool IsChinese(char32_t code) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::ranges::any_of(
      kBlocks, [&](const auto& block) { return code >= block.first && code <= block.second; });
}

bool IsPunctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
           (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
  }
  return CategoryOf(code).front() == 'P';
}

}  // namespace

std::string CleanForWords(std::string_view text, const BertWordOptions& options) {
  std::string out;
  out.reserve(text.size());
  ForEachCodePoint(text, [&](std::string_view sequence, char32_t code) {
    if (IsSpace(code)) {
      out += ' ';
    } else if (IsRemoved(code)) {
      return;
    } else if (options.split_chinese && IsChinese(code)) {
      out += ' ';
      out += sequence;
      out += ' ';
    } else {
      out += sequence;
    }
  });
  return IsAscii(out) ? out : ToNfc(out);
}

std::string WithoutAccents(std::string_view spaced, const BertWordOptions& options) {
  if (!options.strip_accents || IsAscii(spaced)) return std::string(spaced);
  std::string out;
  ForEachCodePoint(ToNfd(spaced), [&](std::string_view sequence, char32_t code) {
    if (CategoryOf(code) != "Mn") out += sequence;
  });
  return out;
}

std::vector<std::string> SplitAtPunctuation(std::string_view text) {
  std::vector<std::string> words;
  bool within = false;
  ForEachCodePoint(text, [&](std::string_view sequence, char32_t code) {
    const bool alone = IsPunctuation(code);
    if (alone || !within) words.emplace_back();
    words.back() += sequence;
    within = !alone;
  });
  return words;
}

}  // namespace plimsoll::data
