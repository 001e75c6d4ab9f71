// What lies in folders. Links to files and to folders are followed. A link to nothing, and one by
// which a folder would hold itself, are UserErrors that name it, and so is a folder that cannot be
// read; but not for Exists().
#pragma once

#include <string>
#include <vector>

#include "base/function_ref.h"

namespace plimsoll {

// False if no file has that name, or one that is no folder.
bool IsFolder(const std::string& path);
// True if there is a file or folder of that name.
bool IsThere(const std::string& path);
// The same, but false where links lead to nothing and where nothing can be seen.
bool Exists(const std::string& path);

// The names in a folder of its files and of its folders, sorted. Those that begin with a dot are
// left out.
struct FolderNames {
  std::vector<std::string> files, folders;
};
FolderNames NamesIn(const std::string& folder);

// Calls visit(path) for the files in a folder, at any depth, until it returns false. Names that
// begin with a dot are left out, of folders with all that they hold. The order is the names'.
void ForEachFileBelow(const std::string& folder, FunctionRef<bool(const std::string& path)> visit);

}  // namespace plimsoll
