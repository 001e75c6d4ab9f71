// The capabilities of the terminal that shows a stream.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

struct Terminal {
  // The terminal of a file descriptor.
  static Terminal Of(int descriptor);

  bool exists = false;   // otherwise the stream goes to a file or a pipe
  size_t columns = 80;   // this many if a terminal doesn't tell
  bool erases = false;   // lines can be erased (not with TERM=dumb)
  bool colored = false;  // the same, and NO_COLOR is not set

  enum class Style { kBold, kRed, kYellow };
  // The text in a style; unchanged without colours.
  std::string Styled(std::string_view text, Style style) const;
};

}  // namespace plimsoll
