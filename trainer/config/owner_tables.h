// Tables of the keys that belong to families of models or to sources of data: a row a key, a column
// a family.
#pragma once

#include <string>

namespace plimsoll::config {

// Whether families or sources bring keys of this section.
bool HasOwners(const std::string& section);

// All tables of such a section, each after its heading: keys that all owners have, keys that some
// share, and those of a single one.
std::string OwnerTables(const std::string& section);

}  // namespace plimsoll::config
