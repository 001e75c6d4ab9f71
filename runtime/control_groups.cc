#include "runtime/control_groups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace plimsoll::runtime {
namespace {

constexpr const char* kFolder = "/sys/fs/cgroup";

// Whether `controllers`, a list such as "cpuset,memory", contains `name`.
bool Names(std::string_view controllers, std::string_view name) {
  for (size_t at = controllers.find(name); at != controllers.npos;
       at = controllers.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || controllers[at - 1] == ',') &&
        (end == controllers.size() || controllers[end] == ',')) {
      return true;
    }
  }
  return false;
}

// Calls `look` with a control group and all its ancestors. `top`: the folder of all groups of one
// kind; `group`: the path of the process's group below `top`.
void GoUp(const SystemPath& top, const char* group, bool unified,
          FunctionRef<void(const ControlGroup&)> look) {
  SystemPath below = JoinPath("", group);
  while (true) {
    const size_t length = std::strlen(below.data());
    if (length > 0 && below[length - 1] == '/') below[length - 1] = '\0';
    look({unified, JoinPath(top.data(), below.data())});
    char* const last = std::strrchr(below.data(), '/');
    if (last == nullptr) return;
    *last = '\0';
  }
}

}  // namespace

bool ReadSystemText(const char* path, SystemText& text) {
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

int64_t NumberIn(const char* path, int64_t fallback) {
  SystemText text;
  if (!ReadSystemText(path, text)) return fallback;
  char* end = nullptr;
  const int64_t value = std::strtoll(text.data(), &end, 10);
  return end == text.data() ? fallback : value;
}

SystemPath JoinPath(const char* root, const char* folder, const char* below, const char* file) {
  SystemPath path;
  size_t end = 0;
  for (const char* part : {root, folder, below, file}) {
    const size_t length = std::min(std::strlen(part), path.size() - 1 - end);
    std::memcpy(path.data() + end, part, length);
    end += length;
  }
  path[end] = '\0';
  return path;
}

uint64_t ControlGroup::Id() const {
  struct stat info {};
  return stat(folder.data(), &info) == 0 ? info.st_ino : 0;
}

void ForEachControlGroup(const char* root, std::string_view controller,
                         FunctionRef<void(const ControlGroup&)> look) {
  // The lines are like "0::/jobs/7" or, on older systems, "5:cpuset,memory:/jobs/7".
  SystemText groups;
  if (!ReadSystemText(JoinPath(root, "/proc/self/cgroup").data(), groups)) return;
  std::array<char, 64> kind{'/'};  // "/memory": an older system's folder of this controller
  controller.copy(kind.data() + 1, kind.size() - 2);
  for (char* line = groups.data(); *line != '\0';) {
    char* const end = line + std::strcspn(line, "\n");
    const bool more = *end == '\n';
    *end = '\0';
    const char* const kinds = std::strchr(line, ':');
    const char* const path = kinds == nullptr ? nullptr : std::strchr(kinds + 1, ':');
    if (path != nullptr && path == kinds + 1) {
      GoUp(JoinPath(root, kFolder), path + 1, /*unified=*/true, look);
    } else if (path != nullptr && Names(std::string_view(kinds + 1, path), controller)) {
      GoUp(JoinPath(root, kFolder, kind.data()), path + 1, /*unified=*/false, look);
    }
    line = more ? end + 1 : end;
  }
}

}  // namespace plimsoll::runtime
