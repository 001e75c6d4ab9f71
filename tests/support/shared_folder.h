// The folder of large reference files (texts, tokenizers, trajectories) that tests use where it is
// there: $PLIMSOLL_SHARED (with --test_env=PLIMSOLL_SHARED), else `shared` beside the repository.
// Tests that need it skip when it is absent:
//     const auto shared = SharedFolder();
//     if (!shared) GTEST_SKIP() << kNoSharedFolder;
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace plimsoll {

inline constexpr const char* kNoSharedFolder =
    "the folder of reference files is absent: put it beside the repository as `shared`, or name it "
    "with --test_env=PLIMSOLL_SHARED=DIR";

// Bazel runs tests in a tree of links; the repository is where the link to this header leads.
inline std::optional<std::string> SharedFolder() {
  namespace fs = std::filesystem;
  std::error_code error;
  if (const char* named = std::getenv("PLIMSOLL_SHARED"); named != nullptr && *named != '\0') {
    if (fs::is_directory(named, error)) return std::string(named);
    return std::nullopt;
  }
  const fs::path header = fs::canonical("tests/support/shared_folder.h", error);
  if (error) return std::nullopt;
  const fs::path repository = header.parent_path().parent_path().parent_path();
  const fs::path folder = repository.parent_path() / "shared";
  if (!fs::is_directory(folder, error)) return std::nullopt;
  return folder.string();
}

}  // namespace plimsoll
