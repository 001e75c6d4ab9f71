#include "bench/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/error.h"

namespace plimsoll::bench {

void FillRandom(trainer::Session& session, int64_t vocab) {
  std::mt19937 random(1);
  for (int32_t& id : session.batch().tokens) id = static_cast<int32_t>(random() % vocab);
  for (int32_t& id : session.batch().targets) id = static_cast<int32_t>(random() % vocab);
}

double RunStep(trainer::Session& session, int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t tokens = static_cast<int64_t>(session.batch().tokens.size()) * session.accumulate();
  session.BeginStep(tokens, 1e-4, 1);
  for (int64_t micro = 0; micro < session.accumulate(); ++micro) session.RunMicroStep(step, micro);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void WriteText(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw UserError(path + ": cannot write");
  fmt::print(file, "{}\n", text);
  std::fclose(file);
}

int RunBenchmark(const std::function<void()>& body) {
  if (const char* directory = std::getenv("BUILD_WORKING_DIRECTORY")) {
    std::filesystem::current_path(directory);
  }
  try {
    body();
  } catch (const UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}

}  // namespace plimsoll::bench
