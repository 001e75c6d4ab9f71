// Any text as a configuration gives either a UserError of one line, or a configuration whose
// resolved form loads to itself. Bytes 0xFF separate the input into the main file, a file it may
// extend (base.yaml), and --set arguments. Nothing on disk is read.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "trainer/config/load.h"

namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == 0xFF) {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(data[i]);
    }
  }
  const std::string base = parts.size() > 1 ? parts[1] : "";
  const plimsoll::config::FileReader read = [&](const std::string& path) {
    if (path != "base.yaml") throw plimsoll::UserError(path + ": no such file");
    return base;
  };
  std::vector<std::string> sets;
  for (size_t i = 2; i < parts.size() && i < 10; ++i) sets.push_back(parts[i]);

  std::string resolved;
  try {
    resolved = plimsoll::config::LoadText(parts[0], "run.yaml", sets, 1, read).resolved_yaml;
  } catch (const plimsoll::UserError& e) {
    const std::string message = e.what();
    Check(!message.empty() && message.find('\n') == std::string::npos);
    return 0;
  }
  const plimsoll::config::Loaded again = plimsoll::config::LoadText(resolved, "resolved.yaml");
  Check(again.resolved_yaml == resolved);
  Check(again.warnings.empty());
  return 0;
}
