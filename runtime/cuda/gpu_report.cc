#include "runtime/cuda/gpu_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <tuple>

#include "base/bytes.h"
#include "gpu/architectures.h"
#include "gpu/installation.h"
#include "gpu/nvml.h"

namespace plimsoll::runtime {
namespace {

GpuFacts FactsOf(const gpu::NvmlDevice& device) {
  GpuFacts facts;
  facts.name = device.name();
  facts.pci_bus_id = device.pci_bus_id();
  facts.capability = device.capability();
  const gpu::NvmlMemory memory = device.memory();
  facts.total_bytes = memory.free + memory.used;
  facts.free_bytes = memory.free;
  for (const gpu::NvmlProcess& process : device.processes()) {
    facts.holders.push_back({process.pid, process.bytes, process.name});
  }
  facts.mig = device.mig();
  facts.prohibited = device.prohibited();
  return facts;
}

// Compares the part after the domain: CUDA writes the domain with four digits, NVML with eight.
bool SameBus(const std::string& a, const std::string& b) {
  const auto tail = [](const std::string& id) { return id.substr(id.find(':') + 1); };
  const std::string left = tail(a), right = tail(b);
  return left.size() == right.size() &&
         std::equal(left.begin(), left.end(), right.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) ==
                  std::tolower(static_cast<unsigned char>(y));
         });
}

void AddGpuProblems(const GpuReport& report, std::vector<GpuProblem>& problems) {
  bool usable = false;
  for (const GpuFacts& gpu : report.gpus) usable = usable || (gpu.visible && gpu.has_code);
  for (size_t i = 0; i < report.gpus.size(); ++i) {
    const GpuFacts& gpu = report.gpus[i];
    if (gpu.visible && !gpu.has_code) {
      problems.push_back(
          {fmt::format("GPU {} ({}) has compute capability {}, for which this build has no code "
                       "(it has: {}); build with --config=cuda --repo_env=CUDA_ARCHITECTURES={}",
                       i, gpu.name, gpu.capability.text(), report.architectures,
                       gpu::ArchitectureOf(gpu.capability)),
           !usable});
    }
    if (gpu.prohibited) {
      problems.push_back({fmt::format("GPU {} ({}) lets no CUDA program in: its compute mode is "
                                      "Prohibited; an administrator sets it by nvidia-smi -c 0",
                                      i, gpu.name),
                          false});
    }
    if (gpu.mig) {
      problems.push_back({fmt::format("GPU {} ({}) is cut into MIG instances, each with a part of "
                                      "its memory; the figures here are the whole card's",
                                      i, gpu.name),
                          false});
    }
    constexpr double kMuch = 0.05;
    if (gpu.visible && !gpu.holders.empty() &&
        static_cast<double>(gpu.total_bytes - gpu.free_bytes) >
            kMuch * static_cast<double>(gpu.total_bytes)) {
      GpuMemory others;
      others.others = gpu.holders;
      problems.push_back({fmt::format("GPU {} ({}) has {} of {} free: {}; end them, or set "
                                      "memory.budget: free - 1GiB",
                                      i, gpu.name, FormatBytes(gpu.free_bytes),
                                      FormatBytes(gpu.total_bytes), others.DescribeOthers()),
                          false});
    }
  }
}

}  // namespace

GpuReport InspectGpus() {
  GpuReport report;
  const gpu::Installation installation = gpu::FindInstallation();
  report.cuda_build = installation.cuda;
  report.architectures = installation.architectures;
  report.cuda_version = installation.runtime_version;
  report.cuda_problem = installation.problem;
  for (const gpu::LibraryVersion& library : installation.libraries) {
    report.libraries.push_back({library.name, library.found, library.built_with});
  }
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    report.visible_devices_set = true;
    report.visible_devices = visible;
  }
  const gpu::Nvml* nvml = gpu::Nvml::Get();
  if (nvml == nullptr) {
    report.driver_problem = gpu::Nvml::problem();
    return report;
  }
  report.driver_version = nvml->driver_version();
  report.driver_cuda_version = nvml->cuda_version();
  for (const gpu::NvmlDevice& device : nvml->devices()) {
    GpuFacts& facts = report.gpus.emplace_back(FactsOf(device));
    for (const gpu::VisibleGpu& visible : installation.gpus) {
      if (!SameBus(visible.pci_bus_id, facts.pci_bus_id)) continue;
      facts.visible = true;
      facts.multiprocessors = visible.multiprocessors;
      facts.has_code = HasCodeFor(report, visible.capability);
    }
    for (const gpu::NvmlDevice& other : nvml->devices()) {
      facts.links.push_back(other.handle() == device.handle() ? "" : Name(device.LinkTo(other)));
    }
  }
  return report;
}

bool HasCodeFor(const GpuReport& report, ComputeCapability gpu) {
  return report.cuda_build && gpu::HasCodeFor(report.architectures, gpu);
}

std::string CudaVersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::vector<GpuProblem> FindProblems(const GpuReport& report) {
  std::vector<GpuProblem> problems;
  if (!report.driver_problem.empty()) {
    problems.push_back({report.driver_problem + "; install one, or use device: cpu", true});
    return problems;
  }
  if (report.gpus.empty()) {
    problems.push_back(
        {"the NVIDIA driver sees no GPU; in a container, start it with --gpus all; "
         "or use device: cpu",
         true});
    return problems;
  }
  if (!report.cuda_build) {
    problems.push_back({"this build has no CUDA; build with --config=cuda to use the GPU", true});
    return problems;
  }
  if (report.driver_cuda_version / 1000 < report.cuda_version / 1000) {
    problems.push_back(
        {fmt::format(
             "the NVIDIA driver {} runs CUDA up to {}, and this build is of CUDA {}; install "
             "a newer driver, or build with an older toolkit (CUDA_HOME)",
             report.driver_version, CudaVersionText(report.driver_cuda_version),
             CudaVersionText(report.cuda_version)),
         true});
    return problems;
  }
  bool any_visible = false;
  for (const GpuFacts& gpu : report.gpus) any_visible = any_visible || gpu.visible;
  if (!any_visible) {
    problems.push_back(
        {report.visible_devices_set
             ? fmt::format("CUDA_VISIBLE_DEVICES='{}' hides every GPU from this process; unset it, "
                           "or name one",
                           report.visible_devices)
             : fmt::format("CUDA sees no GPU: {}; see nvidia-smi", report.cuda_problem),
         true});
    return problems;
  }
  AddGpuProblems(report, problems);
  for (const GpuLibrary& library : report.libraries) {
    if (library.built_with.empty()) continue;
    const std::string major = library.built_with.substr(0, library.built_with.find('.'));
    if (library.found.substr(0, library.found.find('.')) != major) {
      problems.push_back(
          {fmt::format("{} {} is installed, and this build is of {}; install {} {}", library.name,
                       library.found, library.built_with, library.name, major),
           true});
    } else if (library.found != library.built_with) {
      problems.push_back({fmt::format("{} {} is installed, and this build is of {}: other versions "
                                      "may choose other algorithms",
                                      library.name, library.found, library.built_with),
                          false});
    }
  }
  return problems;
}

}  // namespace plimsoll::runtime
