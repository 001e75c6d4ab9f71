#include "runtime/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"

namespace plimsoll::runtime {
namespace {

using Text = std::array<char, 8192>;

// The start of a file of the system's, ended by a zero.
void ReadText(const char* path, Text& text) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) throw InternalError(std::string("can't open ") + path);
  size_t size = 0;
  while (size + 1 < text.size()) {
    const ssize_t got = read(file, text.data() + size, text.size() - 1 - size);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  close(file);
  text[size] = '\0';
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
  ReadText("/proc/self/status", text);
  return {Field(text, "\nVmRSS:"), Field(text, "\nVmHWM:")};
}

int64_t AvailableMemory() {
  Text text;
  ReadText("/proc/meminfo", text);
  return Field(text, "\nMemAvailable:");
}

}  // namespace plimsoll::runtime
