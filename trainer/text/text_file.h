// Text files, read as text whatever holds them: as they are, or compressed (formats/compression.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/mapped_file.h"

namespace plimsoll::data {

// Where lines of progress go.
using Say = std::function<void(std::string_view text)>;

// The text of `path`, mapped. Compressed text is unpacked into a file without a name in TMPDIR (or
// /tmp), which goes away with the mapping, and takes no memory but the page cache's; `say`, which
// may be empty, is told so. UserErrors name the file: it cannot be read or unpacked, or is no text.
MappedFile OpenText(const std::string& path, const Say& say = {});

// UserError, saying what `name` looks like, unless `bytes` are text: UTF-8 with some bytes of
// another encoding among it, at most, and next to no control characters. Long files are looked at
// here and there.
void RequireText(std::string_view bytes, const std::string& name);

}  // namespace plimsoll::data
