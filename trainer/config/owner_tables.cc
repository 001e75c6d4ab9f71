#include "trainer/config/owner_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "base/columns.h"
#include "trainer/config/key_cells.h"
#include "trainer/config/owner_keys.h"
#include "trainer/config/schema.h"

namespace plimsoll::config {
namespace {

using Keys = std::vector<const Key*>;
using Names = std::vector<std::string>;

bool Has(const Key& key, const std::string& owner) {
  return std::ranges::find(key.owners, owner) != key.owners.end();
}

// Texts that are too long for a narrow column: the cell has a number, the lines after the table the
// text.
class LongCells {
 public:
  std::string Cell(const std::string& text) {
    constexpr size_t kMostColumns = 28;
    if (Columns(text) <= kMostColumns) return text;
    auto known = std::ranges::find(texts_, text);
    if (known == texts_.end()) known = texts_.insert(texts_.end(), text);
    return fmt::format("({})", known - texts_.begin() + 1);
  }

  std::string Lines() const {
    std::string lines = texts_.empty() ? "" : "\n";
    for (size_t i = 0; i < texts_.size(); ++i)
      lines += fmt::format("- ({}) {}\n", i + 1, texts_[i]);
    return lines;
  }

 private:
  Names texts_;
};

std::string CellOf(const Key& key, const std::string& owner) {
  if (!Has(key, owner)) return "–";
  const std::string own = OwnersDefault(key, owner);
  return own.empty() ? DefaultCell(key) : own;
}

// A row for each key that one of the owners has, a column for each owner.
std::string DefaultsTable(const Names& owners, const Keys& keys) {
  std::string text = fmt::format("\n| key | `{}` |\n|---", fmt::join(owners, "` | `"));
  for (size_t i = 0; i < owners.size(); ++i) text += "|---";
  text += "|\n";
  LongCells cells;
  for (const Key* key : keys) {
    const auto has = [&](const std::string& owner) { return Has(*key, owner); };
    if (std::ranges::none_of(owners, has)) continue;
    text += fmt::format("| `{}` |", key->path);
    for (const std::string& owner : owners) {
      text += fmt::format(" {} |", cells.Cell(CellOf(*key, owner)));
    }
    text += "\n";
  }
  return text + cells.Lines();
}

std::string MeaningTable(const Keys& keys) {
  std::string text = "\n| key | type | meaning |\n|---|---|---|\n";
  for (const Key* key : keys) {
    text += fmt::format("| `{}` | {} | {} |\n", key->path, TypeCell(*key), MeaningCell(*key));
  }
  return text;
}

// Keys of one owner each, which is a column.
std::string OwnColumnTable(const std::string& kind, const Keys& keys) {
  std::string text =
      fmt::format("\n| key | {} | type | default | meaning |\n|---|---|---|---|---|\n", kind);
  for (const Key* key : keys) {
    text += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", key->path, key->owners.front(),
                        TypeCell(*key), DefaultCell(*key), MeaningCell(*key));
  }
  return text;
}

// The owners that have one of the keys.
Names SharingOwners(const std::string& section, const Keys& keys) {
  Names owners = OwnersOf(section);
  std::erase_if(owners, [&](const std::string& owner) {
    return std::ranges::none_of(keys, [&](const Key* key) { return Has(*key, owner); });
  });
  return owners;
}

// Whether two owners have in common at least half of the keys that either has.
bool Alike(const std::string& a, const std::string& b, const Keys& keys) {
  int64_t both = 0, either = 0;
  for (const Key* key : keys) {
    const bool of_a = Has(*key, a), of_b = Has(*key, b);
    both += of_a && of_b;
    either += of_a || of_b;
  }
  return 2 * both >= either;
}

// Owners of one table: those that are like its first one. Those like no other share the last table.
std::vector<Names> Groups(const Names& owners, const Keys& keys) {
  std::vector<Names> groups;
  for (const std::string& owner : owners) {
    const auto alike = [&](const Names& group) { return Alike(group.front(), owner, keys); };
    const auto found = std::ranges::find_if(groups, alike);
    if (found == groups.end()) {
      groups.push_back({owner});
    } else {
      found->push_back(owner);
    }
  }
  Names alone;
  for (const Names& group : groups) {
    if (group.size() == 1) alone.push_back(group.front());
  }
  std::erase_if(groups, [](const Names& group) { return group.size() == 1; });
  if (!alone.empty()) groups.push_back(alone);
  return groups;
}

}  // namespace

bool HasOwners(const std::string& section) {
  return std::ranges::any_of(
      Schema(), [&](const Key& key) { return key.Section() == section && !key.owners.empty(); });
}

std::string OwnerTables(const std::string& section) {
  const std::string kind = section == "model" ? "family" : "source";
  const std::string kinds = section == "model" ? "families" : "sources";
  Keys common, shared;
  std::map<std::string, Keys> own;  // of a single owner
  for (const Key& key : Schema()) {
    if (key.Section() != section) continue;
    (key.owners.empty()       ? common
     : key.owners.size() == 1 ? own[key.owners.front()]
                              : shared)
        .push_back(&key);
  }
  std::string text = fmt::format("\n## Keys of every {}\n", kind) + KeyTable(common);
  text += fmt::format(
      "\n## Keys that {} share\n\nA column is a {} (`{}.{}`), a cell the key's default there. –: "
      "the "
      "{} does not have the key.\n",
      kinds, kind, section, kind, kind);
  for (const Names& group : Groups(SharingOwners(section, shared), shared)) {
    text += DefaultsTable(group, shared);
  }
  text += "\nWhat these keys mean:\n" + MeaningTable(shared);
  Keys few;  // of owners that a table each would be too much for
  constexpr size_t kFew = 2;
  for (const auto& [owner, keys] : own) {
    if (keys.size() > kFew) {
      text += fmt::format("\n## Keys of `{}` alone\n", owner) + KeyTable(keys);
    } else {
      few.insert(few.end(), keys.begin(), keys.end());
    }
  }
  if (few.empty()) return text;
  return text + fmt::format("\n## Other keys of a single {}\n", kind) + OwnColumnTable(kind, few);
}

}  // namespace plimsoll::config
