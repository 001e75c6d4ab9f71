// What a terminal that reads a stream can show.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

struct Terminal {
  // Of a file descriptor.
  static Terminal Of(int descriptor);

  bool exists = false;   // otherwise the stream goes to a file or a pipe
  size_t columns = 80;   // as many where a terminal doesn't tell
  bool erases = false;   // a line can be taken back (not with TERM=dumb)
  bool colored = false;  // the same, and NO_COLOR is not set

  enum class Style { kBold, kRed, kYellow };
  // The text as it is where there are no colours.
  std::string Styled(std::string_view text, Style style) const;
};

}  // namespace plimsoll
