// Reading files, and protecting them from being overwritten by this process.
#pragma once

#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>

namespace plimsoll {

// Up to `most` first bytes of a file, a device or a pipe. Throws UserErrors naming the path: no
// such file, a folder, or a pipe that nothing opens for writing within `patience`.
std::string ReadInput(const std::string& path, size_t most,
                      std::chrono::milliseconds patience = std::chrono::seconds(10));

// A stream over a regular file. It has failed where there is none: a pipe or device that has the
// file's name is not opened, since nothing may ever be written there.
std::ifstream OpenFile(const std::string& path);

// Notes for IsInput() that this process reads this file.
void NoteInput(const std::string& path);

// Whether this process has read this file, by whatever name: compares device, inode and time of
// birth.
bool IsInput(const std::string& path);

}  // namespace plimsoll
