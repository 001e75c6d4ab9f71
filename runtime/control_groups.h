// The control groups of a process, which limit the memory and the processor time of a container or
// a batch job. Nothing here allocates.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/function_ref.h"

namespace plimsoll::runtime {

// The beginning of a system file, terminated by a zero.
using SystemText = std::array<char, 8192>;
// Returns false if the file does not exist.
bool ReadSystemText(const char* path, SystemText& text);
// The number at the start of a file; `fallback` if there is no file or no number ("max").
int64_t NumberIn(const char* path, int64_t fallback);

using SystemPath = std::array<char, 4352>;
// Joins the parts of a path; text that doesn't fit is left out.
SystemPath JoinPath(const char* root, const char* folder, const char* below = "",
                    const char* file = "");

struct ControlGroup {
  bool unified;  // version 2, which has its own file names
  SystemPath folder;

  SystemPath File(const char* name) const { return JoinPath(folder.data(), name); }
  // An id that is the same for all processes of the machine in this group. 0 if the group's folder
  // is not visible.
  uint64_t Id() const;
};

// Calls `look` with each of this process's groups that may limit `controller` ("memory", "cpu"),
// and with all their ancestors. In a container, the group's own folder may be invisible; the top
// folder then is the container's group. `root`: a folder in place of "/", for tests.
void ForEachControlGroup(const char* root, std::string_view controller,
                         FunctionRef<void(const ControlGroup&)> look);

}  // namespace plimsoll::runtime
