// The text of render_chats.py, which the program gives to Python.
#pragma once

#include <string_view>

namespace plimsoll::data {

std::string_view RenderChatsScript();  // the build writes its source

}  // namespace plimsoll::data
