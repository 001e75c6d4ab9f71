// A key of the schema as cells of a table, in Markdown.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/schema.h"

namespace plimsoll::config {

std::string TypeCell(const Key& key);
std::string DefaultCell(const Key& key);
// What the key says, the keys that it depends on, and its range.
std::string MeaningCell(const Key& key);
// "`model.family`: `bert`, `vit`": the families or sources that have the key. Empty: all of them.
std::string OwnersText(const Key& key);

// A table of keys: type, default and meaning.
std::string KeyTable(const std::vector<const Key*>& keys);

}  // namespace plimsoll::config
