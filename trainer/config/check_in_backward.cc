#include "trainer/config/check_in_backward.h"

#include <fmt/format.h>

namespace plimsoll::config {
namespace {

// Why updates wait for all gradients, and how they need not; empty: they don't.
std::string WaitsFor(const RunConfig& config) {
  const AmpConfig& amp = config.amp;
  if (config.optimizer.clip_grad_norm > 0 && config.optimizer.clip_by == ClipBy::kStep) {
    return fmt::format(
        "optimizer.clip_grad_norm: {} needs the norm of all gradients first; set it "
        "to 0, or optimizer.clip_by to parameter or last_step",
        config.optimizer.clip_grad_norm);
  }
  if (config.divergence.action == DivergenceAction::kSkip) {
    return "divergence.action: skip needs to see all gradients first; set stop or rollback";
  }
  const bool fp16 = amp.dtype == Dtype::kFp16;
  if (amp.loss_scale != LossScale::kNone && (fp16 || amp.loss_scale != LossScale::kAuto)) {
    return "loss scaling needs to see all gradients first; use amp.dtype: bf16";
  }
  return "";
}

}  // namespace

void CheckInBackward(const RunConfig& config, std::vector<std::string>& warnings) {
  const char* const key = "optimizer.in_backward";
  if (!config.optimizer.in_backward) return;
  if (config.optimizer.place == OptimizerPlace::kHost) {
    throw config.Error(key,
                       "true is not possible with optimizer.place: host, whose updates stand in a "
                       "row behind the backward pass; remove one of the two");
  }
  const std::string reason = WaitsFor(config);
  if (reason.empty()) return;
  warnings.push_back(fmt::format("{}: {}: has no effect: {}", config.Origin(key), key, reason));
}

}  // namespace plimsoll::config
