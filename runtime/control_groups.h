// The control groups of a process: what bounds the memory and the processor time of a container or
// a batch job. Nothing here allocates.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/function_ref.h"

namespace plimsoll::runtime {

// The start of a system file, terminated by a zero.
using SystemText = std::array<char, 8192>;
// False when there is no such file.
bool ReadSystemText(const char* path, SystemText& text);
// The number that a file begins with; `fallback` without file or number ("max").
int64_t NumberIn(const char* path, int64_t fallback);

using SystemPath = std::array<char, 4352>;
// The parts one after the other; what doesn't fit is left out.
SystemPath JoinPath(const char* root, const char* folder, const char* below = "",
                    const char* file = "");

struct ControlGroup {
  bool unified;  // of version 2, with its names of files
  SystemPath folder;

  SystemPath File(const char* name) const { return JoinPath(folder.data(), name); }
  // The same for all processes of the machine that are in this group; 0: its folder is out of
  // sight.
  uint64_t Id() const;
};

// Calls `look` with the groups of this process that may bound `controller` ("memory", "cpu"), and
// with all groups around them. In a container the group's own folder may be out of sight, and what
// is in sight at the top is the container's. `root`: a folder in place of "/", for tests.
void ForEachControlGroup(const char* root, std::string_view controller,
                         FunctionRef<void(const ControlGroup&)> look);

}  // namespace plimsoll::runtime
