#include "data/texts/json_elements.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace plimsoll::data {

JsonElements::JsonElements(std::string_view text, std::string path, bool partial)
    : text_(text), path_(std::move(path)), partial_(partial) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

std::string JsonElements::where() const { return fmt::format("{}:{}", path_, element_line_); }

void JsonElements::SkipBlanks() {
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') ++line_;
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') return;
  }
}

// Skips to the comma or bracket after the element. Returns false if the text ends before it.
bool JsonElements::SkipElement() {
  int64_t depth = 0;
  bool in_string = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') ++line_;
    if (in_string) {
      if (c == '\\' && at_ + 1 < text_.size()) ++at_;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == ']')) {
      return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

// Ends the iteration. Throws an error unless the text is only the beginning of the file.
bool JsonElements::End(const char* reason) {
  ended_ = true;
  if (partial_ && at_ >= text_.size()) return false;
  throw UserError(fmt::format("{}:{}: {}", path_, line_, reason));
}

bool JsonElements::Next() {
  constexpr const char* kUnclosed = "the array is not closed by ]; the file may be cut off";
  if (ended_) return false;
  SkipBlanks();
  if (!begun_) {
    begun_ = true;
    if (at_ >= text_.size() || text_[at_] != '[') {
      return End(
          "a *.json file of examples is an array of objects, [{…}, {…}]; a file with an object a "
          "line has the ending .jsonl");
    }
    ++at_;
    SkipBlanks();
    if (at_ < text_.size() && text_[at_] == ']') {
      ++at_;
      ended_ = true;
      return false;
    }
  }
  const size_t begin = at_;
  element_line_ = line_;
  if (!SkipElement()) return End(kUnclosed);
  element_ = text_.substr(begin, at_ - begin);
  if (text_[at_++] == ',') {
    SkipBlanks();
    return true;
  }
  ended_ = true;
  SkipBlanks();
  if (at_ < text_.size()) End("something follows the array; remove it");
  return true;
}

}  // namespace plimsoll::data
