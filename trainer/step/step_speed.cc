#include "trainer/step/step_speed.h"

#include <fmt/format.h>

#include "base/amounts.h"
#include "base/axes.h"

namespace plimsoll::trainer {
namespace {

std::string SecondsText(double seconds) {
  if (seconds < 0.01) return fmt::format("{:.2f} ms", seconds * 1e3);
  return seconds < 60 ? fmt::format("{:.1f} ms", seconds * 1e3) : FormatDuration(seconds);
}

}  // namespace

double TokensPerStep(const CompileOptions& options) {
  return static_cast<double>(options.micro_batch * options.sequence * options.accumulate *
                             options.mesh.ranks(kDataAxis));
}

const char* UnitOfWork(const CompileOptions& options) {
  return options.sequence == 1 ? "sample" : "token";
}

std::string SpeedText(const CompileOptions& options, double seconds) {
  return fmt::format("{}, {} {}s/s", SecondsText(seconds),
                     FormatCount(TokensPerStep(options) / seconds), UnitOfWork(options));
}

}  // namespace plimsoll::trainer
