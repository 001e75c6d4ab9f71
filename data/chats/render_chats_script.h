// The source of render_chats.py, which the program passes to Python.
#pragma once

#include <string_view>

namespace plimsoll::data {

std::string_view RenderChatsScript();  // defined in a source file that the build generates

}  // namespace plimsoll::data
