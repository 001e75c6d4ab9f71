#include "runtime/process_memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/errno_text.h"
#include "base/error.h"

namespace plimsoll::runtime {
namespace {

using Text = std::array<char, 8192>;

// Reads the start of a system file, terminated by a zero. False when there is no such file.
bool ReadText(const char* path, Text& text) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  size_t size = 0;
  while (size + 1 < text.size()) {
    const ssize_t got = read(file, text.data() + size, text.size() - 1 - size);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  close(file);
  text[size] = '\0';
  return true;
}

// The same for a file that every system has.
void RequireText(const char* path, Text& text) {
  if (ReadText(path, text)) return;
  throw UserError(std::string(path) + ": cannot be read: " + ErrnoText(errno), ExitCode::kInternal);
}

// The number in a file that holds nothing else; `fallback` without file or number ("max").
int64_t Number(const char* path, int64_t fallback) {
  Text text;
  if (!ReadText(path, text)) return fallback;
  char* end = nullptr;
  const int64_t value = std::strtoll(text.data(), &end, 10);
  return end == text.data() ? fallback : value;
}

// The value of a line "KEY   123 kB", in bytes.
int64_t Field(const Text& text, const char* key) {
  const char* at = std::strstr(text.data(), key);
  if (at == nullptr) throw InternalError(std::string("the system doesn't tell ") + key);
  return static_cast<int64_t>(std::strtoll(at + std::strlen(key), nullptr, 10)) * 1024;
}

using Path = std::array<char, 4352>;

// The parts one after the other; what doesn't fit is left out.
Path Join(const char* root, const char* folder, const char* below = "", const char* file = "") {
  Path path;
  size_t end = 0;
  for (const char* part : {root, folder, below, file}) {
    const size_t length = std::min(std::strlen(part), path.size() - 1 - end);
    std::memcpy(path.data() + end, part, length);
    end += length;
  }
  path[end] = '\0';
  return path;
}

// The files of a control group.
struct GroupFiles {
  const char* folder;  // of all groups
  const char* limit;
  const char* used;
  const char* cached;  // lines of memory.stat: pages of files, and those that cannot be dropped
  const char* shared;
};
constexpr GroupFiles kUnified = {"/sys/fs/cgroup", "/memory.max", "/memory.current", "\nfile ",
                                 "\nshmem "};
constexpr GroupFiles kOlder = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                               "/memory.usage_in_bytes", "\ntotal_cache ", "\ntotal_shmem "};

int64_t Line(const Text& text, const char* key) {
  const char* at = std::strstr(text.data(), key);
  return at == nullptr ? 0 : std::strtoll(at + std::strlen(key), nullptr, 10);
}

// Takes into account the limits of the group and of all around it. In a container the group's own
// folder may be out of sight, and what is in sight at the top is the container's.
void LimitBy(const GroupFiles& files, const char* root, const char* group,
             AvailableMemoryBytes& available) {
  Path below = Join("", group);
  while (true) {
    const size_t length = std::strlen(below.data());
    if (length > 0 && below[length - 1] == '/') below[length - 1] = '\0';
    const auto path = [&](const char* file) {
      return Join(root, files.folder, below.data(), file);
    };
    constexpr int64_t kNone = AvailableMemoryBytes::kNoLimit;
    const int64_t limit = Number(path(files.limit).data(), kNone);
    if (limit < kNone / 2) {  // older systems say "none" by a number of pages
      int64_t used = Number(path(files.used).data(), 0);
      Text text;
      if (ReadText(path("/memory.stat").data(), text)) {
        used -= Line(text, files.cached) - Line(text, files.shared);
      }
      struct stat folder {};
      if (limit - used < available.group && stat(path("").data(), &folder) == 0) {
        available.group = limit - used;
        available.group_id = folder.st_ino;
      }
    }
    char* const last = std::strrchr(below.data(), '/');
    if (last == nullptr) return;
    *last = '\0';
  }
}

// Whether "cpuset,memory" names memory.
bool NamesMemory(const char* kinds, const char* end) {
  constexpr std::string_view kMemory = "memory";
  const std::string_view all(kinds, static_cast<size_t>(end - kinds));
  for (size_t at = all.find(kMemory); at != all.npos; at = all.find(kMemory, at + 1)) {
    const size_t behind = at + kMemory.size();
    if ((at == 0 || all[at - 1] == ',') && (behind == all.size() || all[behind] == ',')) {
      return true;
    }
  }
  return false;
}

}  // namespace

ProcessMemory MeasureProcessMemory() {
  Text text;
  RequireText("/proc/self/status", text);
  const bool told = std::strstr(text.data(), "\nRssAnon:") != nullptr;
  return {Field(text, "\nVmRSS:"), Field(text, "\nVmHWM:"), told ? Field(text, "\nRssAnon:") : 0};
}

void ReturnFreeMemory() { malloc_trim(0); }

AvailableMemoryBytes MeasureAvailableMemory(const char* root) {
  Text text;
  RequireText(Join(root, "/proc/meminfo").data(), text);
  AvailableMemoryBytes available{.machine = Field(text, "\nMemAvailable:")};
  // Lines "0::/jobs/7", or, of older systems, "5:cpuset,memory:/jobs/7".
  Text groups;
  if (!ReadText(Join(root, "/proc/self/cgroup").data(), groups)) groups[0] = '\0';
  for (char* line = groups.data(); *line != '\0';) {
    char* const end = line + std::strcspn(line, "\n");
    const bool more = *end == '\n';
    *end = '\0';
    const char* const kinds = std::strchr(line, ':');
    const char* const path = kinds == nullptr ? nullptr : std::strchr(kinds + 1, ':');
    if (path != nullptr && path == kinds + 1) {
      LimitBy(kUnified, root, path + 1, available);
    } else if (path != nullptr && NamesMemory(kinds + 1, path)) {
      LimitBy(kOlder, root, path + 1, available);
    }
    line = more ? end + 1 : end;
  }
  return available;
}

}  // namespace plimsoll::runtime
