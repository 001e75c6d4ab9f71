#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace plimsoll {

Terminal Terminal::Of(int descriptor) {
  Terminal terminal;
  terminal.exists = isatty(descriptor) == 1;
  if (!terminal.exists) return terminal;
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) terminal.columns = size.ws_col;
  const char* const term = std::getenv("TERM");
  terminal.erases = term == nullptr || std::string_view(term) != "dumb";
  // https://no-color.org: any value but the empty one turns colours off.
  const char* const no_color = std::getenv("NO_COLOR");
  terminal.colored = terminal.erases && (no_color == nullptr || *no_color == '\0');
  return terminal;
}

std::string Terminal::Styled(std::string_view text, Style style) const {
  if (!colored) return std::string(text);
  const std::string_view code = style == Style::kBold ? "1" : style == Style::kRed ? "31" : "33";
  std::string styled = "\033[";
  styled += code;
  styled += 'm';
  styled += text;
  styled += "\033[0m";
  return styled;
}

}  // namespace plimsoll
