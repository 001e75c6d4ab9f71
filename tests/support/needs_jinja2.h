// Tests that render chats skip, with a message, where python3 has no jinja2.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

namespace plimsoll {

// As the program looks for it: without the user's own packages.
inline bool HasJinja2() {
  static const bool has = std::system("python3 -I -c 'import jinja2' 2>/dev/null") == 0;
  return has;
}

}  // namespace plimsoll

// At the start of a test.
#define NEEDS_JINJA2()                                                                \
  if (!::plimsoll::HasJinja2()) {                                                     \
    GTEST_SKIP() << "chats are not rendered: no jinja2 (apt install python3-jinja2)"; \
  }                                                                                   \
  static_assert(true)
