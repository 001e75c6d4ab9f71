#include "base/own_program.h"

#include <filesystem>

#include "base/error.h"

namespace plimsoll {

std::string OwnProgram() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw UserError("/proc/self/exe: " + error.message(), ExitCode::kInternal);
  return path.string();
}

}  // namespace plimsoll
