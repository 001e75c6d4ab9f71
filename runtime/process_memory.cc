#include "runtime/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

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

}  // namespace

ProcessMemory MeasureProcessMemory() {
  Text text;
  RequireText("/proc/self/status", text);
  const bool told = std::strstr(text.data(), "\nRssAnon:") != nullptr;
  return {Field(text, "\nVmRSS:"), Field(text, "\nVmHWM:"), told ? Field(text, "\nRssAnon:") : 0};
}

int64_t AvailableMemory() {
  Text text;
  RequireText("/proc/meminfo", text);
  const int64_t machine = Field(text, "\nMemAvailable:");
  // The container's limit; the page cache that it holds counts as used, but can be dropped.
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const int64_t limit = Number("/sys/fs/cgroup/memory.max", kNone);
  if (limit == kNone) return machine;
  int64_t used = Number("/sys/fs/cgroup/memory.current", 0);
  if (ReadText("/sys/fs/cgroup/memory.stat", text)) {
    if (const char* file = std::strstr(text.data(), "\nfile ")) {
      used -= std::strtoll(file + 6, nullptr, 10);
    }
  }
  return std::min(machine, limit - used);
}

}  // namespace plimsoll::runtime
