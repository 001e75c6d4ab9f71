// Parses YAML text into a tree in which every value records where it was written.
//
// Anchors, aliases and merge keys (<<) are resolved here; values are still text. Throws UserError
// ("run.yaml:12: …") for anything that is not one well-formed YAML document of UTF-8 text, for
// duplicate keys, and for documents that are too large or too deep after expanding aliases.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::config {

struct TreeEntry;

struct Tree {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string origin;              // "run.yaml:12"
  std::string text;                // a scalar's text
  bool quoted = false;             // whether a scalar is a string even if it looks like a number
  std::vector<Tree> items;         // a list's items
  std::vector<TreeEntry> entries;  // a map's entries in the order of the file; keys are unique
};

struct TreeEntry {
  std::string key;
  std::string origin;  // the place of the key
  Tree value;
};

// Parses a text. `name` is the file as the user knows it. An empty document is kNull. If `numbered`
// is false, origins are the bare name (for text from the command line).
Tree ParseYaml(const std::string& text, const std::string& name, bool numbered = true);

// Replaces ${NAME} and ${NAME:-default} in every value (not in keys); $${ stands for a plain ${. A
// value with a variable is no longer `quoted`, so "${STEPS}" may give a number.
void ExpandEnvironment(Tree& tree);

// Formats user text for a one-line message: in double quotes, escaped, shortened.
std::string Quote(const std::string& text);

// Formats a key for a message: unchanged if it is a word, otherwise like Quote.
std::string ShowKey(const std::string& key);

// Throws UserError "<what>: …" unless the text is UTF-8 without control characters, of at most 1
// MiB. If line > 0, the text is a file, and the message says "<what>:<line>: …".
void CheckText(const std::string& text, const std::string& what, int line = 0);

// A description of a value, for "expected …, got …": `"ten"`, "a list", "a map".
std::string Describe(const Tree& tree);

}  // namespace plimsoll::config
