// Files that are read, and that they are not written over.
#pragma once

#include <cstddef>
#include <string>

namespace plimsoll {

// The first bytes, so many at most, of a file, a device or a pipe. UserErrors naming the path: no
// such file, a folder, or a pipe that nothing opens for writing within seconds.
std::string ReadInput(const std::string& path, size_t most);

// This process reads this file: noted for IsInput().
void NoteInput(const std::string& path);

// Has this process read this file? By whatever name it did: device, inode and time of birth are
// compared.
bool IsInput(const std::string& path);

}  // namespace plimsoll
