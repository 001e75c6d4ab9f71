#include "runtime/process_memory.h"

#include <malloc.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/errno_text.h"
#include "base/error.h"
#include "runtime/control_groups.h"

namespace plimsoll::runtime {
namespace {

// Like ReadSystemText, for a file that every system has: throws if it cannot be read.
void RequireText(const char* path, SystemText& text) {
  if (ReadSystemText(path, text)) return;
  throw UserError(std::string(path) + ": cannot be read: " + ErrnoText(errno), ExitCode::kInternal);
}

// The value of a line "KEY   123 kB", in bytes.
int64_t Field(const SystemText& text, const char* key) {
  const char* at = std::strstr(text.data(), key);
  if (at == nullptr) throw InternalError(std::string("the system doesn't tell ") + key);
  return static_cast<int64_t>(std::strtoll(at + std::strlen(key), nullptr, 10)) * 1024;
}

// The file names of a control group.
struct GroupFiles {
  const char* limit;
  const char* used;
  // Lines of memory.stat: cached pages of files, and pages that cannot be dropped.
  const char* cached;
  const char* shared;
};
constexpr GroupFiles kUnified = {"/memory.max", "/memory.current", "\nfile ", "\nshmem "};
constexpr GroupFiles kOlder = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "\ntotal_cache ",
                               "\ntotal_shmem "};

int64_t Line(const SystemText& text, const char* key) {
  const char* at = std::strstr(text.data(), key);
  return at == nullptr ? 0 : std::strtoll(at + std::strlen(key), nullptr, 10);
}

// Reduces `available` to what the group's limit leaves.
void LimitBy(const ControlGroup& group, AvailableMemoryBytes& available) {
  const GroupFiles& files = group.unified ? kUnified : kOlder;
  constexpr int64_t kNone = AvailableMemoryBytes::kNoLimit;
  const int64_t limit = NumberIn(group.File(files.limit).data(), kNone);
  if (limit >= kNone / 2) return;  // older systems express "no limit" as a huge number
  int64_t used = NumberIn(group.File(files.used).data(), 0);
  SystemText text;
  if (ReadSystemText(group.File("/memory.stat").data(), text)) {
    used -= Line(text, files.cached) - Line(text, files.shared);
  }
  const uint64_t id = group.Id();
  if (limit - used >= available.group || id == 0) return;
  available.group = limit - used;
  available.group_id = id;
}

}  // namespace

ProcessMemory MeasureProcessMemory() {
  SystemText text;
  RequireText("/proc/self/status", text);
  const bool told = std::strstr(text.data(), "\nRssAnon:") != nullptr;
  return {Field(text, "\nVmRSS:"), Field(text, "\nVmHWM:"), told ? Field(text, "\nRssAnon:") : 0};
}

void ReturnFreeMemory() { malloc_trim(0); }

AvailableMemoryBytes MeasureAvailableMemory(const char* root) {
  SystemText text;
  RequireText(JoinPath(root, "/proc/meminfo").data(), text);
  AvailableMemoryBytes available{.machine = Field(text, "\nMemAvailable:")};
  ForEachControlGroup(root, "memory",
                      [&](const ControlGroup& group) { LimitBy(group, available); });
  return available;
}

}  // namespace plimsoll::runtime
