#include "trainer/resolve/dtype_warning.h"

#include <fmt/format.h>

#include "base/error.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {

void WarnOfDtype(config::Loaded& loaded) {
  const config::RunConfig& config = loaded.config;
  const bool bf16 = config.amp.dtype == config::Dtype::kBf16;
  if (!bf16 && config.amp.dtype != config::Dtype::kTf32) return;
  const auto missing = FindMissingUnits(
      config, bf16 ? &ComputeCapability::multiplies_bf16 : &ComputeCapability::multiplies_tf32);
  if (!missing) return;
  loaded.warnings.push_back(
      fmt::format("{}: amp.dtype: {} has matrix units for fp16 and none for {}, {}; use fp16{}{}",
                  config.Origin("amp.dtype"), missing->gpu, ToString(config.amp.dtype),
                  bf16 ? "so that products take longer than predicted"
                       : "so that products are as slow as in fp32",
                  missing->way_out.empty() ? "" : ", or ", missing->way_out));
}

}  // namespace plimsoll::trainer
