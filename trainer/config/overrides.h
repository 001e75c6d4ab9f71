// Overrides: reads the layers of a configuration, which are the files that `extends` names, the
// file itself, then --set key=value. Later layers override earlier ones, key by key.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "trainer/config/mistake_list.h"
#include "trainer/config/yaml_tree.h"

namespace plimsoll::config {

// Dotted path → value as written; the value's origin is the place of its key. The schema has every
// path.
using KeyTrees = std::map<std::string, Tree>;

// The text of a file; throws UserError "<path>: reason".
using FileReader = std::function<std::string(const std::string& path)>;

// `text` is the file named `name`; `read` reads the files of `extends` (empty: extends is refused).
// `sets` are "key=value" of the command line. Adds unknown keys, and values where sections belong,
// to `mistakes`; throws UserError for an `extends` that cannot be read or is circular.
KeyTrees ReadLayers(const std::string& text, const std::string& name, const FileReader& read,
                    const std::vector<std::string>& sets, MistakeList& mistakes);

// The error that no file has that name, neither on disk nor among the shipped configurations.
struct NoSuchFile : UserError {
  using UserError::UserError;
};

// Reads a configuration of at most 1 MiB from a file or a pipe. A shipped configuration
// (trainer/config/shipped.h) need not be on disk; a file of its name on disk takes precedence.
std::string ReadFile(const std::string& path);

}  // namespace plimsoll::config
