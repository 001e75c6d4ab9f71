// Reads text files, uncompressed or compressed (formats/compression.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/mapped_file.h"

namespace plimsoll::data {

// Receives progress messages.
using Say = std::function<void(std::string_view text)>;

// Maps the text of `path`. Compressed text is unpacked into a scratch file, which disappears with
// the mapping and takes no memory except the page cache; `say`, which may be empty, receives a
// message about it. A UserError names the file: it cannot be read or unpacked, or is not text.
MappedFile OpenText(const std::string& path, const Say& say = {});

// Returns the beginning of the text that OpenText maps, at most about 64 KiB, without unpacking the
// rest. Throws the errors of OpenText that the beginning, and samples of uncompressed text, show.
std::string StartOfText(const std::string& path);

// Throws a UserError, which says what `name` looks like, unless `bytes` are text: UTF-8, with few
// bytes of other encodings and almost no control characters. Only samples of long files are
// checked.
void RequireText(std::string_view bytes, const std::string& name);

}  // namespace plimsoll::data
