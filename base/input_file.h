// Reads files, and protects them from being overwritten by this process.
#pragma once

#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>

namespace plimsoll {

// The first bytes of a file, a device or a pipe, at most `most`. Throws UserErrors naming the path:
// no such file, a folder, or a pipe that nothing opens for writing within `patience`.
std::string ReadInput(const std::string& path, size_t most,
                      std::chrono::milliseconds patience = std::chrono::seconds(10));

// Opens a stream over a regular file. The stream has failed if the path is anything else: a pipe or
// a device is not opened, since nothing may ever be written there.
std::ifstream OpenFile(const std::string& path);

// Records that this process reads this file; see IsInput().
void NoteInput(const std::string& path);

// Whether this process has read this file, under any name: compares device, inode and creation
// time.
bool IsInput(const std::string& path);

}  // namespace plimsoll
