#include "trainer/gpu_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "runtime/process_memory.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kMiB = 1 << 20;
// The number of steps after which the process should allocate nothing more.
constexpr int64_t kSettlingSteps = 3;

// The profile `profile` with the measured parts in place of its own parts.
memory::DeviceProfile Measured(const memory::DeviceProfile& profile,
                               const runtime::ProcessParts& parts) {
  memory::DeviceProfile measured = profile;
  measured.context_bytes = parts.context;
  measured.code_bytes = parts.code;
  measured.libraries_bytes = parts.libraries;
  measured.communicators_bytes = parts.communicators;
  measured.graphs_bytes = parts.graphs;
  measured.reserve_bytes = 0;  // the reserve was temporary and is free again
  measured.measured = true;
  return measured;
}

}  // namespace

bool FarFromPlan(int64_t measured, int64_t planned) {
  const int64_t allowed = std::max(planned / 100, 100 * kMiB);
  return std::abs(measured - planned) > allowed;
}

std::optional<std::string> GrowthText(int64_t step, int64_t settled, int64_t now, int64_t allowed,
                                      const std::string& where) {
  if (now - settled <= allowed) return std::nullopt;
  return fmt::format("the process grew by {}{} to {} at step {}", FormatBytes(now - settled), where,
                     FormatBytes(now), step);
}

GpuAccount::GpuAccount(const config::RunConfig& config)
    : config_(config), profile_(ProfileFrom(config)) {
  if (DeviceFrom(config) == runtime::DeviceKind::kCuda) meter_ = runtime::GpuMeter::Find();
}

void GpuAccount::CheckFree(const memory::MemoryPlan& plan) const {
  if (!meter_) return;
  const runtime::GpuMemory memory = meter_->Measure();
  const int64_t own = meter_->MeasureProcess().bytes;
  const int64_t needed = profile_.ProcessBytes(plan.arena_bytes);
  if (needed <= memory.free + own) return;
  const std::string others = memory.DescribeOthers();
  const bool free_micro_batch = !ModelFrom(config_)->sample_coupling().whole_micro_batch();
  throw UserError(
      fmt::format(
          "{}: device: cuda: the run needs {} of the {}'s memory, and {} are free{}; {}a "
          "smaller memory.budget with checkpointing.policy: auto{} needs less (see plimsoll "
          "plan)",
          config_.Origin("device"), FormatBytes(needed), memory.gpu, FormatBytes(memory.free + own),
          others.empty() ? "" : " (" + others + ")",
          others.empty() ? "" : "end the other process, or: ",
          free_micro_batch ? ", or a smaller train.micro_batch," : ""),
      ExitCode::kBudgetNotMet);
}

std::string GpuAccount::StartUp(const memory::MemoryPlan& plan,
                                const runtime::ProcessParts& parts) {
  if (!meter_) return "";
  const runtime::GpuMeter::Process process = meter_->MeasureProcess();
  highest_ = std::max(highest_, process.bytes);
  const int64_t planned = profile_.ProcessBytes(plan.arena_bytes);
  const memory::DeviceProfile measured = Measured(profile_, parts);
  if (process.by_driver && config_.memory.calibration.empty())
    KeepProfile(ProfileFolder(config_), measured);
  if (config_.memory.budget) {
    const int64_t line = BytesOf(*config_.memory.budget, config_, "memory.budget");
    if (process.bytes > line) {
      throw ProcessBeyondBudget(fmt::format(
          "{}: memory.budget: {}; the process takes {} of the GPU, {} more than planned ({} "
          "outside "
          "the arena); raise the budget, or start again: the parts are noted for later plans",
          config_.Origin("memory.budget"), FormatBytes(line), FormatBytes(process.bytes),
          FormatBytes(process.bytes - planned), memory::PartsText(measured)));
    }
  }
  if (FarFromPlan(process.bytes, planned)) {
    PrintWarning(
        fmt::format("the process takes {} of the GPU, planned were {} (measured: {}; planned: "
                    "{})",
                    FormatBytes(process.bytes), FormatBytes(planned), memory::PartsText(measured),
                    memory::PartsText(profile_)));
  }
  return fmt::format("process {} of the {}'s {}: arena {}, {}; planned {}{}",
                     FormatBytes(process.bytes), profile_.device,
                     FormatBytes(profile_.memory_bytes), FormatBytes(parts.arena),
                     memory::PartsText(measured), FormatBytes(planned),
                     process.by_driver ? ""
                                       : " (by what the card's use grew by: the driver does not "
                                         "count this process by itself)");
}

std::optional<int64_t> GpuAccount::bytes() const {
  if (!meter_) return std::nullopt;
  return meter_->MeasureProcess().bytes;
}

std::vector<std::string> GpuAccount::Watch(int64_t step) {
  std::vector<std::string> warnings;
  if (!meter_) return warnings;
  const int64_t now = *bytes();
  const int64_t host = runtime::MeasureProcessMemory().anonymous_bytes;
  highest_ = std::max(highest_, now);
  if (step < kSettlingSteps || settled_ == 0) {
    settled_ = now;
    settled_host_ = host;
    return warnings;
  }
  const auto look = [&](int64_t& settled, int64_t bytes, int64_t allowed, const char* where) {
    const auto growth = GrowthText(step, settled, bytes, allowed, where);
    if (!growth) return;
    warnings.push_back(*growth);
    settled = bytes;
  };
  constexpr int64_t kHostNoise = 32 * kMiB;  // heap growth up to this is not reported
  look(settled_, now, kMiB, " on the GPU");
  look(settled_host_, host, kHostNoise, " on the host");
  return warnings;
}

}  // namespace plimsoll::trainer
