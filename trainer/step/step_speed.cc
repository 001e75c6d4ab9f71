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

double PeakFlops(const CompiledStep& compiled, double peak, double codes_peak) {
  const double codes = compiled.model_flops_of_codes;
  if (codes == 0 || peak == 0 || codes_peak == 0) return peak;
  return compiled.model_flops / ((compiled.model_flops - codes) / peak + codes / codes_peak);
}

double PeakFlops(const CompiledStep& compiled, const runtime::Device& device) {
  const amp::AmpOptions& amp = compiled.options.amp;
  return PeakFlops(compiled, device.peak_flops(amp.dtype, amp.tf32),
                   device.peak_flops(graph::DType::kFloat8E4M3, /*tf32=*/false));
}

std::string SpeedText(const CompileOptions& options, double seconds) {
  return fmt::format("{}, {} {}s/s", SecondsText(seconds),
                     FormatCount(TokensPerStep(options) / seconds), UnitOfWork(options));
}

}  // namespace plimsoll::trainer
