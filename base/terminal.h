// The capabilities of the terminal that shows a stream.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

struct Terminal {
  // Describes the terminal of a file descriptor.
  static Terminal Of(int descriptor);

  bool exists = false;   // false: the stream is a file or a pipe
  size_t columns = 80;   // default if the terminal doesn't report its width
  bool erases = false;   // lines can be erased (not with TERM=dumb)
  bool colored = false;  // lines can be erased and NO_COLOR is not set

  enum class Style { kBold, kRed, kYellow };
  // The text in a style; unchanged if `colored` is false.
  std::string Styled(std::string_view text, Style style) const;
};

}  // namespace plimsoll
