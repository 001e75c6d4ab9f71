// Reads text files, uncompressed or compressed (formats/compression.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/mapped_file.h"

namespace plimsoll::data {

// Receives lines of progress.
using Say = std::function<void(std::string_view text)>;

// The text of `path`, mapped. Compressed text is unpacked into a scratch file, which disappears
// with the mapping, and takes no memory except the page cache; `say`, which may be empty, receives
// a message about it. UserErrors name the file: it cannot be read or unpacked, or is not text.
MappedFile OpenText(const std::string& path, const Say& say = {});

// The beginning of that text, at most about 64 KiB, without unpacking the rest. Errors as of
// OpenText, as far as the beginning, and samples of text that isn't compressed, show them.
std::string StartOfText(const std::string& path);

// UserError, saying what `name` looks like, unless `bytes` are text: UTF-8, with at most some bytes
// of another encoding and almost no control characters. Only samples of long files are checked.
void RequireText(std::string_view bytes, const std::string& name);

}  // namespace plimsoll::data
