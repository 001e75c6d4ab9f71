// Determines a run file's device and budget.
#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "trainer/config/schema.h"
#include "trainer/propose/choices.h"
#include "trainer/resolve/gpu_profile.h"
#include "trainer/resolve/known_gpus.h"

namespace plimsoll::trainer {
namespace {

std::string CapabilityText(const Target& target) {
  return "compute capability " + target.capability.text();
}

std::string CodeText(ComputeCapability capability, const runtime::GpuReport& gpus) {
  const int number = 10 * capability.major + capability.minor;
  if (runtime::HasCodeFor(gpus, capability)) return "this build has code for it";
  if (number < 75) return "no build has code for it: CUDA 13 begins at compute capability 7.5";
  return fmt::format("{}: build with --config=cuda --repo_env=CUDA_ARCHITECTURES={}",
                     gpus.cuda_build ? "this build has no code for it" : "this build has no CUDA",
                     number);
}

Target GpuTarget(const std::string& name, ComputeCapability capability, int64_t bytes,
                 const runtime::GpuReport& gpus) {
  const int64_t gib = static_cast<int64_t>(kGpuShare * static_cast<double>(bytes)) >> 30;
  return {.name = name,
          .gpu = true,
          .capability = capability,
          .budget = fmt::format("{}GiB", gib),
          .budget_why = fmt::format("90 % of the GPU's {}.", FormatBytes(bytes)),
          .code = CodeText(capability, gpus)};
}

void ChoosePrecision(const Target& target, Choices& choices) {
  if (!target.gpu) {
    choices.Set("amp.dtype", "fp32",
                "A CPU computes in float32: bf16 would save memory, and no time.");
  } else if (target.capability.multiplies_bf16()) {
    choices.Set("amp.dtype", "bf16",
                "16-bit products at the tensor cores' full rate and with float32's range, so that "
                "no loss scaling is needed; master weights are float32.");
  } else {
    choices.Set("amp.dtype", "fp16",
                fmt::format("The tensor cores of {} know fp16 and no bf16. Its range is small: the "
                            "loss is scaled (amp.loss_scale: dynamic).",
                            CapabilityText(target)));
  }
}

}  // namespace

Target TargetOf(const std::string& device, const runtime::GpuReport& gpus) {
  if (device.empty()) {
    for (const runtime::GpuFacts& gpu : gpus.gpus) {
      if (gpu.visible) return GpuTarget(gpu.name, gpu.capability, gpu.total_bytes, gpus);
    }
  }
  if (!device.empty() && device != "cpu") {
    const KnownGpu& gpu = RequireGpu(device);
    Target target = GpuTarget(gpu.name, gpu.capability, gpu.memory_bytes(), gpus);
    target.key = gpu.key;
    return target;
  }
  return {.name = "CPU", .budget = "80%", .budget_why = "80 % of the machine's memory."};
}

void ChooseDevice(const Target& target, const std::string& budget, Choices& choices) {
  choices.Set("device", target.gpu ? "cuda" : "cpu",
              target.gpu
                  ? fmt::format("{}, {}; {}.", target.name, CapabilityText(target), target.code)
                  : "");
  if (!target.key.empty()) {
    choices.Set("memory.device", target.key, "`plimsoll plan` plans for it wherever it runs.");
  }
  const std::string beside =
      target.gpu ? " All that the process takes of the GPU stays within." : "";
  if (budget.empty()) {
    choices.Set("memory.budget", target.budget, target.budget_why + beside);
  } else {
    choices.Set("memory.budget", budget, "As asked for." + beside);
  }
  ChoosePrecision(target, choices);
}

}  // namespace plimsoll::trainer
