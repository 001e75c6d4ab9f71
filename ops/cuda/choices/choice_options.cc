#include "ops/cuda/choices/choice_options.h"

#include <cstdlib>
#include <string_view>
#include <utility>

namespace plimsoll::ops {
namespace {

struct Current {
  ChoiceOptions options;
  uint64_t generation = 0;
};

Current& GetCurrent() {
  static Current current;
  return current;
}

std::string UsersCache() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/plimsoll";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.cache/plimsoll";
  }
  return "";
}

}  // namespace

void SetChoices(ChoiceOptions options) {
  Current& current = GetCurrent();
  current.options = std::move(options);
  ++current.generation;
}

const ChoiceOptions& CurrentChoiceOptions() { return GetCurrent().options; }

bool MeasuresChoices() {
  const ChoiceOptions& options = CurrentChoiceOptions();
  if (options.measure) return *options.measure;
  const char* const choice = std::getenv("PLIMSOLL_CUDA_GEMM");
  return choice == nullptr || std::string_view(choice) != "first";
}

std::string ChoiceFolder() {
  if (!MeasuresChoices()) return "";
  const ChoiceOptions& options = CurrentChoiceOptions();
  return options.folder ? *options.folder : UsersCache();
}

uint64_t ChoiceGeneration() { return GetCurrent().generation; }

}  // namespace plimsoll::ops
