// The schema of keys as documentation: the pages docs/configuration.md and docs/configuration/, and
// the rows that `plimsoll docs KEY` prints.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::config {

struct ReferencePage {
  std::string path;  // in docs/: "configuration.md", "configuration/model.md"
  std::string text;
};

// The index, and then a page for each section that has keys.
std::vector<ReferencePage> ReferencePages();

// A key in words, in Markdown.
struct KeyRow {
  std::string key, type, default_value, meaning;
  std::string topic;  // of its page: "configuration/model"
};

// All keys, in the order of the pages.
const std::vector<KeyRow>& KeyRows();

}  // namespace plimsoll::config
