#include "runtime/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace plimsoll::runtime {
namespace {

// The value of a line "KEY:   123 kB", in bytes; -1 when there is none.
int64_t Field(const char* text, const char* key) {
  const char* at = std::strstr(text, key);
  if (at == nullptr) return -1;
  return static_cast<int64_t>(std::strtoll(at + std::strlen(key), nullptr, 10)) * 1024;
}

}  // namespace

ProcessMemory MeasureProcessMemory() {
  std::array<char, 8192> text;
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) throw InternalError("can't open /proc/self/status");
  size_t size = 0;
  while (size + 1 < text.size()) {
    const ssize_t got = read(file, text.data() + size, text.size() - 1 - size);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  close(file);
  text[size] = '\0';
  ProcessMemory memory;
  memory.resident_bytes = Field(text.data(), "\nVmRSS:");
  memory.peak_resident_bytes = Field(text.data(), "\nVmHWM:");
  if (memory.resident_bytes < 0 || memory.peak_resident_bytes < 0) {
    throw InternalError("/proc/self/status lacks VmRSS or VmHWM");
  }
  return memory;
}

}  // namespace plimsoll::runtime
