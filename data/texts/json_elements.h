// Iterates over the elements of a JSON array without parsing the complete file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::data {

class JsonElements {
 public:
  // `path` is for messages. `partial`: the text is only the beginning of the file.
  JsonElements(std::string_view text, std::string path, bool partial = false);

  // Goes to the next element; returns false after the last one, or after the last complete one.
  // UserErrors name file and line: the text is not an array, or does not end as one.
  bool Next();

  std::string_view text() const { return element_; }  // the element's JSON, which may be invalid
  std::string where() const;                          // "FILE:LINE" of the element's first line
  size_t bytes_read() const { return at_; }

 private:
  void SkipBlanks();
  bool SkipElement();
  bool End(const char* reason);

  std::string_view text_, element_;
  std::string path_;
  bool partial_, begun_ = false, ended_ = false;
  size_t at_ = 0;
  int64_t line_ = 1, element_line_ = 1;
};

}  // namespace plimsoll::data
