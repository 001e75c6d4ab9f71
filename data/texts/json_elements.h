// The elements of a JSON array, one after the other: the file is not parsed as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::data {

class JsonElements {
 public:
  // `path` is for messages. `partial`: the text is the beginning of a longer one.
  JsonElements(std::string_view text, std::string path, bool partial = false);

  // Goes to the next element; false after the last one, or the last one that is there as a whole.
  // UserErrors name file and line: the text is no array, or does not end as one.
  bool Next();

  std::string_view text() const { return element_; }  // its JSON, which may be wrong
  std::string where() const;                          // "FILE:LINE", of its first line
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
