#include "data/tokenizers/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"

namespace plimsoll::data {
namespace {

std::string Mapped(std::string_view text, int options) {
  std::string out;
  ForEachUtf8Run(text, [&](std::string_view run, bool valid) {
    if (!valid || IsAscii(run)) {
      out += run;
      return;
    }
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()),
                     static_cast<utf8proc_ssize_t>(run.size()), &mapped,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
    if (size < 0) throw InternalError(std::string("Unicode: ") + utf8proc_errmsg(size));
    out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
    std::free(mapped);
  });
  return out;
}

// Characters of \w: Unicode's technical standard 18, annex C. Circled and squared letters are
// alphabetic, but are neither letters, letter numbers nor marks.
bool IsOfWords(char32_t code) {
  if (code == kNoCharacter) return false;
  if (code == 0x200C || code == 0x200D) return true;  // joiners
  constexpr std::pair<char32_t, char32_t> kLettersInShapes[] = {
      {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
  for (const auto& [first, last] : kLettersInShapes) {
    if (code >= first && code <= last) return true;
  }
  const std::string_view category = CategoryOf(code);
  return category.front() == 'L' || category.front() == 'M' || category == "Nd" ||
         category == "Nl" || category == "Pc";
}

}  // namespace

char32_t CodePoint(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  char32_t code = byte(0) & (0x7f >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3f);
  return code;
}

size_t Utf8Length(std::string_view text, bool* incomplete) {
  if (incomplete != nullptr) *incomplete = false;
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  // Unicode 15, table 3-7: the second byte's range excludes overlong forms, surrogates and code
  // points above U+10FFFF.
  size_t length = 0;
  uint8_t low = 0x80, high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) {
      if (incomplete != nullptr) *incomplete = true;
      return 0;
    }
    if (byte(i) < low || byte(i) > high) return 0;
    low = 0x80;
    high = 0xbf;
  }
  return length;
}

std::string Utf8Stream::Push(std::string_view bytes) {
  pending_.append(bytes);
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    bool incomplete = false;
    const size_t length = Utf8Length(rest, &incomplete);
    if (length > 0) {
      out.append(rest.substr(0, length));
      rest.remove_prefix(length);
    } else if (incomplete) {
      break;
    } else {
      out.append(kReplacement);
      rest.remove_prefix(1);
    }
  }
  pending_ = std::string(rest);
  return out;
}

std::string Utf8Stream::Finish() {
  std::string out;
  if (!pending_.empty()) out = kReplacement;
  pending_.clear();
  return out;
}

std::string ToNfc(std::string_view text) { return Mapped(text, UTF8PROC_COMPOSE); }
std::string ToNfd(std::string_view text) { return Mapped(text, UTF8PROC_DECOMPOSE); }

std::string ToLower(std::string_view text) {
  // The only letter whose lower case has two characters (SpecialCasing).
  constexpr char32_t kCapitalIWithDot = 0x130;
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = std::max<size_t>(Utf8Length(text.substr(i)), 1);
    const std::string_view sequence = text.substr(i, length);
    i += length;
    if (length == 1) {
      const char c = sequence[0];
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      continue;
    }
    const char32_t code = CodePoint(sequence);
    if (code == kCapitalIWithDot) {
      out += "i\xCC\x87";
      continue;
    }
    utf8proc_uint8_t bytes[4];
    const auto size =
        utf8proc_encode_char(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  }
  return out;
}

std::string_view CategoryOf(char32_t code) {
  return utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
}

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

char32_t FirstCharacter(std::string_view text) {
  const size_t length = Utf8Length(text);
  return length == 0 ? kNoCharacter : CodePoint(text.substr(0, length));
}

char32_t LastCharacter(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(4, text.size()); ++length) {
    const std::string_view last = text.substr(text.size() - length);
    if (Utf8Length(last) == length) return CodePoint(last);
  }
  return kNoCharacter;
}

bool IsWhiteSpace(char32_t code) {
  if (code == kNoCharacter) return false;
  if (code < 0x100) return code == ' ' || (code >= 9 && code <= 13) || code == 0x85 || code == 0xA0;
  return CategoryOf(code).front() == 'Z';
}

size_t LeadingWhiteSpace(std::string_view text) {
  size_t size = 0;
  while (IsWhiteSpace(FirstCharacter(text.substr(size)))) size += Utf8Length(text.substr(size));
  return size;
}

size_t TrailingWhiteSpace(std::string_view text) {
  size_t end = text.size();
  while (IsWhiteSpace(LastCharacter(text.substr(0, end)))) {
    do {
      --end;
    } while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80);
  }
  return text.size() - end;
}

bool StartsWithWord(std::string_view text) { return IsOfWords(FirstCharacter(text)); }
bool EndsWithWord(std::string_view text) { return IsOfWords(LastCharacter(text)); }

}  // namespace plimsoll::data
