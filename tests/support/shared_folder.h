// The folder of large reference files (texts, tokenizers, trajectories), which tests use if it
// exists: $PLIMSOLL_SHARED, which must then exist, else `shared` beside the repository. Tests that
// need it skip when it is absent:
//     const auto shared = SharedFolder();
//     if (!shared) GTEST_SKIP() << kNoSharedFolder;
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

namespace plimsoll {

inline constexpr const char* kNoSharedFolder =
    "the folder of reference files is absent: put it beside the repository as `shared`, or name it "
    "in the environment, as PLIMSOLL_SHARED";

// Bazel runs tests in a tree of links; the link to this header leads to the repository.
inline std::optional<std::string> SharedFolder() {
  namespace fs = std::filesystem;
  std::error_code error;
  if (const char* named = std::getenv("PLIMSOLL_SHARED"); named != nullptr && *named != '\0') {
    if (fs::is_directory(named, error)) return std::string(named);
    throw std::runtime_error(std::string("PLIMSOLL_SHARED names no folder: ") + named);
  }
  const fs::path header = fs::canonical("tests/support/shared_folder.h", error);
  if (error) return std::nullopt;
  const fs::path repository = header.parent_path().parent_path().parent_path();
  const fs::path folder = repository.parent_path() / "shared";
  if (!fs::is_directory(folder, error)) return std::nullopt;
  return folder.string();
}

}  // namespace plimsoll
