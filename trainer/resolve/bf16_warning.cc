#include "trainer/resolve/bf16_warning.h"

#include <fmt/format.h>

#include "base/error.h"
#include "trainer/resolve/known_gpus.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

constexpr ComputeCapability kFirstWithBf16{8, 0};

}  // namespace

void WarnOfBf16(config::Loaded& loaded) {
  const config::RunConfig& config = loaded.config;
  if (config.amp.dtype != config::Dtype::kBf16) return;
  const std::string gpu = GpuFrom(config);
  if (gpu.empty() || CapabilityFrom(config) >= kFirstWithBf16) return;
  loaded.warnings.push_back(
      fmt::format("{}: amp.dtype: the matrix units of the {} multiply fp16 and no bf16, so that "
                  "products take longer than predicted; use fp16",
                  config.Origin("amp.dtype"), gpu));
}

}  // namespace plimsoll::trainer
