// Layers of a configuration: the files that `extends` names, the file itself, then --set. Later
// layers win, key by key.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "trainer/config/yaml_tree.h"

namespace plimsoll::config {

// Dotted path → value as written; its origin is the place of its key. Every path is in the schema.
using KeyTrees = std::map<std::string, Tree>;

// The text of a file; throws UserError "<path>: reason".
using FileReader = std::function<std::string(const std::string& path)>;

// `text` is the file named `name`; `read` serves `extends` (empty: extends is refused). `sets` are
// "key=value" of the command line. Throws UserError: unknown keys, values where sections belong,
// extends that cannot be read or come back to themselves.
KeyTrees ReadLayers(const std::string& text, const std::string& name, const FileReader& read,
                    const std::vector<std::string>& sets);

// There is none of that name, neither on disk nor among the configurations that come with the
// program.
struct NoSuchFile : UserError {
  using UserError::UserError;
};

// The text of a configuration, at most 1 MiB, of a file or a pipe. One that comes with the program
// (trainer/config/shipped.h) need not be on disk; a file of its name there comes first.
std::string ReadFile(const std::string& path);

}  // namespace plimsoll::config
