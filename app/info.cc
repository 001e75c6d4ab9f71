#include "app/info.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "base/amounts.h"
#include "base/bytes.h"
#include "base/message.h"
#include "base/version.h"
#include "runtime/cpu/processor.h"
#include "runtime/process_memory.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;
using runtime::GpuFacts;
using runtime::GpuLibrary;
using runtime::GpuProblem;
using runtime::GpuReport;

HostFacts LookAtHost() {
  HostFacts host;
  host.processor = runtime::ProcessorName();
  cpu_set_t cores;
  host.cores = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
  host.total_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  host.available_bytes = runtime::AvailableMemory();
  return host;
}

std::string Line(const std::string& name, const std::string& text) {
  return fmt::format("{:<12} {}\n", name, text);
}

std::string BuildText(const GpuReport& gpus) {
  const std::string version = fmt::format("plimsoll {} ({})", Version(), Commit());
  if (!gpus.cuda_build) return version + ", without CUDA";
  return fmt::format("{}, with CUDA {} for compute capabilities {}", version,
                     runtime::CudaVersionText(gpus.cuda_version), gpus.architectures);
}

std::string LibrariesText(const GpuReport& gpus) {
  std::vector<std::string> parts;
  for (const GpuLibrary& library : gpus.libraries) {
    parts.push_back(library.found.empty() ? library.name + " not found"
                                          : library.name + " " + library.found);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string GpuText(const GpuReport& report, const GpuFacts& gpu) {
  std::string text =
      fmt::format("{}, {}, compute capability {}", gpu.name, gpu.pci_bus_id, gpu.capability.text());
  if (gpu.multiprocessors > 0)
    text += fmt::format(", {}", Counted(gpu.multiprocessors, "multiprocessor"));
  text += fmt::format("; {} of {} free", FormatBytes(gpu.free_bytes), FormatBytes(gpu.total_bytes));
  if (!report.cuda_build) return text;
  return text + (!gpu.visible ? "; not visible" : gpu.has_code ? "" : "; no code for it");
}

std::string LinksText(const GpuReport& report) {
  std::string text;
  for (size_t i = 0; i < report.gpus.size(); ++i) {
    for (size_t j = i + 1; j < report.gpus.size() && j < report.gpus[i].links.size(); ++j) {
      text += Line(text.empty() ? "links" : "",
                   fmt::format("GPU {} – GPU {}: {}", i, j, report.gpus[i].links[j]));
    }
  }
  return text;
}

ordered_json HoldersJson(const std::vector<runtime::GpuHolder>& holders) {
  ordered_json json = ordered_json::array();
  for (const runtime::GpuHolder& holder : holders) {
    json.push_back({{"pid", holder.pid},
                    {"name", holder.name},
                    {"bytes", holder.bytes ? ordered_json(*holder.bytes) : ordered_json(nullptr)}});
  }
  return json;
}

bool AnyStops(const std::vector<GpuProblem>& problems) {
  return std::any_of(problems.begin(), problems.end(),
                     [](const GpuProblem& problem) { return problem.stops; });
}

}  // namespace

std::string InfoText(const HostFacts& host, const GpuReport& gpus) {
  std::string text = Line("build", BuildText(gpus));
  text += Line("processor", fmt::format("{}, {}", host.processor, Counted(host.cores, "core")));
  text += Line("memory", fmt::format("{} of {} available", FormatBytes(host.available_bytes),
                                     FormatBytes(host.total_bytes)));
  text += Line("driver", gpus.driver_version.empty()
                             ? "none"
                             : fmt::format("{}, runs CUDA up to {}", gpus.driver_version,
                                           runtime::CudaVersionText(gpus.driver_cuda_version)));
  if (!gpus.libraries.empty()) text += Line("libraries", LibrariesText(gpus));
  for (size_t i = 0; i < gpus.gpus.size(); ++i) {
    text += Line(fmt::format("GPU {}", i), GpuText(gpus, gpus.gpus[i]));
  }
  text += LinksText(gpus);
  const std::vector<GpuProblem> problems = runtime::FindProblems(gpus);
  text += Line("device: auto", AnyStops(problems) ? "means cpu" : "means cuda");
  if (problems.empty()) return text + Line("problems", "none");
  for (size_t i = 0; i < problems.size(); ++i) {
    text += Line(i == 0 ? "problems" : "", problems[i].text);
  }
  return text;
}

std::string InfoJson(const HostFacts& host, const GpuReport& gpus) {
  const std::vector<GpuProblem> problems = runtime::FindProblems(gpus);
  ordered_json json = {
      {"version", Version()},
      {"commit", Commit()},
      {"cuda_build", gpus.cuda_build},
      {"cuda_version", gpus.cuda_build ? ordered_json(runtime::CudaVersionText(gpus.cuda_version))
                                       : ordered_json(nullptr)},
      {"architectures", gpus.architectures},
      {"processor", host.processor},
      {"cores", host.cores},
      {"memory_bytes", host.total_bytes},
      {"available_bytes", host.available_bytes},
      {"driver_version", gpus.driver_version},
      {"driver_cuda_version", gpus.driver_version.empty() ? ordered_json(nullptr)
                                                          : ordered_json(runtime::CudaVersionText(
                                                                gpus.driver_cuda_version))},
      {"device_auto", AnyStops(problems) ? "cpu" : "cuda"},
      {"libraries", ordered_json::array()},
      {"gpus", ordered_json::array()},
      {"problems", ordered_json::array()},
  };
  for (const GpuLibrary& library : gpus.libraries) {
    json["libraries"].push_back(
        {{"name", library.name}, {"found", library.found}, {"built_with", library.built_with}});
  }
  for (const GpuFacts& gpu : gpus.gpus) {
    json["gpus"].push_back({{"name", gpu.name},
                            {"pci_bus_id", gpu.pci_bus_id},
                            {"compute_capability", gpu.capability.text()},
                            {"multiprocessors", gpu.multiprocessors},
                            {"total_bytes", gpu.total_bytes},
                            {"free_bytes", gpu.free_bytes},
                            {"visible", gpu.visible},
                            {"has_code", gpu.has_code},
                            {"processes", HoldersJson(gpu.holders)},
                            {"links", gpu.links}});
  }
  for (const GpuProblem& problem : problems) {
    json["problems"].push_back({{"text", problem.text}, {"stops_cuda", problem.stops}});
  }
  return json.dump(1) + "\n";
}

void AddInfo(CLI::App& app) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("info", "this build, this machine, its GPUs, and what is wrong");
  command->add_flag("--json", *json, "for programs");
  command->callback([json] {
    const HostFacts host = LookAtHost();
    const GpuReport gpus = runtime::InspectGpus();
    PrintAnswer(*json ? InfoJson(host, gpus) : InfoText(host, gpus));
  });
}

}  // namespace plimsoll::trainer
