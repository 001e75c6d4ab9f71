#include "studies/study_directory.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"

namespace plimsoll::studies {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFingerprint = "fingerprint";
constexpr const char* kWayOut = "name another one with `dir` in the study file or --dir";

// "" when there is none.
std::string FingerprintIn(const std::string& path) {
  std::ifstream file = OpenFile(path + "/" + kFingerprint);
  std::string line;
  std::getline(file, line);
  return line;
}

bool HoldsAnything(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) && (!fs::is_directory(path, error) || !fs::is_empty(path, error));
}

}  // namespace

StudyDirectory::StudyDirectory(const std::string& path, const std::string& fingerprint,
                               const std::string& text)
    : path_(path) {
  const std::string there = FingerprintIn(path_);
  if (there.empty() && HoldsAnything(path_)) {
    throw UserError(fmt::format("{}: holds something else than a study; {}", path_, kWayOut));
  }
  if (!there.empty() && there != fingerprint) {
    throw UserError(fmt::format(
        "{}: holds another study, or this one with other rows, base or measure (see {}); {}", path_,
        File("study.yaml"), kWayOut));
  }
  std::error_code error;
  fs::create_directories(File("runs"), error);
  if (error) {
    throw UserError(fmt::format("{}: cannot be made: {}; {}", path_, error.message(), kWayOut));
  }
  lock_.emplace(path_, "runs this study");
  if (there.empty()) Write(kFingerprint, fingerprint + "\n");
  Write("study.yaml", text);
}

std::string StudyDirectory::Run(const std::string& row_folder, size_t run) const {
  return fmt::format("{}/runs/{}.{}", path_, row_folder, run + 1);
}

void StudyDirectory::Write(const std::string& name, const std::string& text) const {
  OutputFile file(File(name));
  file.Write(text);
  file.Commit();
}

}  // namespace plimsoll::studies
