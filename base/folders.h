// The contents of folders. Links to files and to folders are followed. UserErrors name a link to
// nothing, a link by which a folder would contain itself, and a folder that cannot be read.
// Exists() throws none of these.
#pragma once

#include <string>
#include <vector>

#include "base/function_ref.h"

namespace plimsoll {

// Returns false if the name doesn't exist, or if it isn't a folder.
bool IsFolder(const std::string& path);
// Returns true if a file or a folder of that name exists.
bool IsThere(const std::string& path);
// Like IsThere(), but false if a link leads to nothing, or if the path cannot be read.
bool Exists(const std::string& path);

// The names of a folder's files and subfolders, sorted. Names that begin with a dot are left out.
struct FolderNames {
  std::vector<std::string> files, folders;
};
FolderNames NamesIn(const std::string& folder);

// Calls visit(path) for the files in a folder, at any depth, until visit returns false. Files and
// folders whose names begin with a dot are left out. The order is that of the names.
void ForEachFileBelow(const std::string& folder, FunctionRef<bool(const std::string& path)> visit);

}  // namespace plimsoll
