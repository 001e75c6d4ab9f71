#include "trainer/resolve/run_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>

#include "base/axes.h"
#include "base/error.h"
#include "memory/device_profile.h"
#include "memory/device_rates.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/process_cores.h"
#include "trainer/config/load.h"
#include "trainer/config/rank_counts.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/known_gpus.h"

namespace plimsoll::trainer {

int OwnCores() { return runtime::MeasureProcessCores().count(); }

std::shared_ptr<ThreadPool> PlanningThreads() {
  static std::mutex mutex;
  static std::weak_ptr<ThreadPool> shared;
  const std::lock_guard lock(mutex);
  std::shared_ptr<ThreadPool> threads = shared.lock();
  if (threads == nullptr) shared = threads = std::make_shared<ThreadPool>(OwnCores());
  return threads;
}

std::string BoundCoresNote() {
  const int64_t all = sysconf(_SC_NPROCESSORS_ONLN);
  const int64_t bound = std::ssize(runtime::MeasureProcessCores().numbers);
  if (std::getenv("OMPI_MCA_orte_bound_at_launch") == nullptr || bound >= all) return "";
  return fmt::format(", on {} of the host's {} cores: mpirun --bind-to none lets a rank use all",
                     bound, all);
}

int ThreadsFrom(const config::RunConfig& config) {
  return config.train.threads > 0 ? static_cast<int>(config.train.threads) : OwnCores();
}

void RequireCudaBuild(const std::string& text, const std::string& name,
                      const std::vector<std::string>& sets) {
  if (runtime::BuiltWithCuda()) return;
  const std::optional<config::GivenKey> given = config::FindGiven(text, name, sets, "device");
  if (!given || given->value != config::Value(ToString(config::Device::kCuda))) return;
  throw UserError(given->origin + ": " + runtime::kNoCudaBuild);
}

runtime::DeviceKind DeviceFrom(const config::RunConfig& config) {
  switch (config.device) {
    case config::Device::kCpu:
      return runtime::DeviceKind::kCpu;
    case config::Device::kCuda:
      return runtime::DeviceKind::kCuda;
    case config::Device::kAuto:
      break;
  }
  return runtime::CudaVisible() ? runtime::DeviceKind::kCuda : runtime::DeviceKind::kCpu;
}

bool IsOneMemory(const config::RunConfig& config) {
  return DeviceFrom(config) == runtime::DeviceKind::kCpu && !config.debug.host_apart;
}

int64_t ArenaBytes(const config::RunConfig& config, const memory::MemoryPlan& plan) {
  return plan.arena_bytes + (IsOneMemory(config) ? plan.host_arena_bytes : 0);
}

std::unique_ptr<runtime::Device> MakeDevice(const config::RunConfig& config, ThreadPool& pool) {
  if (DeviceFrom(config) == runtime::DeviceKind::kCpu) return runtime::MakeCpuDevice(pool);
  try {
    ActAsAsked(config);
    return runtime::MakeCudaDevice(pool);
  } catch (const UserError& error) {
    throw UserError(config.Origin("device") + ": " + error.what(), error.code());
  }
}

namespace {

// What debug.act_as or ActAs names.
std::optional<ComputeCapability> ActedBy(const config::RunConfig& config) {
  const auto asked = ParseComputeCapability(config.debug.act_as);
  return asked ? asked : ActedCapability();
}

// The compute capability of the GPU that `config` names, or else of this machine's GPU, or else of
// an NVIDIA H200.
ComputeCapability OwnCapability(const config::RunConfig& config) {
  if (!config.planned_gpu.empty()) return RequireGpu(config.planned_gpu).capability;
  const std::optional<runtime::GpuMeter> meter = runtime::GpuMeter::Find();
  return meter ? meter->Capability() : ComputeCapability();
}

}  // namespace

std::optional<Card> CardFrom(const config::RunConfig& config) {
  if (!config.planned_gpu.empty()) {
    const KnownGpu& gpu = RequireGpu(config.planned_gpu);
    return Card{gpu.name, gpu.memory_bytes()};
  }
  const std::optional<runtime::GpuMeter> meter = runtime::GpuMeter::Find();
  if (!meter) return std::nullopt;
  const runtime::GpuMemory memory = meter->Measure();
  const ComputeCapability chosen = runtime::PresentCapability(ActedBy(config));
  return Card{runtime::NameByKernels(memory.gpu, meter->Capability(), chosen), memory.total};
}

std::string GpuFrom(const config::RunConfig& config) {
  if (DeviceFrom(config) == runtime::DeviceKind::kCpu) return "";
  const std::optional<Card> card = CardFrom(config);
  return card ? card->name : memory::BuiltInGpuProfile().device;
}

void ActAsAsked(const config::RunConfig& config) {
  if (const auto acted = ParseComputeCapability(config.debug.act_as)) ActAs(*acted);
}

ComputeCapability CapabilityFrom(const config::RunConfig& config) {
  if (const auto asked = ParseComputeCapability(config.debug.act_as)) {
    const ComputeCapability own = OwnCapability(config);
    if (!own.runs_kernels_of(*asked)) {
      throw config.Error("debug.act_as",
                         fmt::format("{}: a GPU of compute capability {} doesn't run its kernels",
                                     asked->text(), own.text()));
    }
  }
  const auto acted = ActedBy(config);
  if (config.planned_gpu.empty()) return runtime::PresentCapability(acted);
  return acted.value_or(OwnCapability(config));
}

std::optional<MissingUnits> FindMissingUnits(const config::RunConfig& config,
                                             bool (ComputeCapability::*has)() const) {
  const std::string gpu = GpuFrom(config);
  const ComputeCapability chosen = CapabilityFrom(config);
  if (gpu.empty() || (chosen.*has)()) return std::nullopt;
  const ComputeCapability own = OwnCapability(config);
  if (!(own.*has)()) return MissingUnits{"the " + gpu, ""};
  if (ActedBy(config)) {
    return MissingUnits{fmt::format("compute capability {} (debug.act_as)", chosen.text()),
                        "remove debug.act_as"};
  }
  return MissingUnits{fmt::format("this build for the features of {}", chosen.text()),
                      fmt::format("build for those of {} (docs/gpus.md)", own.text())};
}

void RequireFp8Units(const config::RunConfig& config) {
  if (config.amp.fp8_recipe == config::Fp8Recipe::kNone) return;
  const auto missing = FindMissingUnits(config, &ComputeCapability::multiplies_float8);
  if (!missing) return;
  std::string way_out = missing->way_out;
  if (way_out.empty()) {
    std::vector<const char*> others;
    for (const KnownGpu& known : KnownGpus()) {
      if (known.capability.multiplies_float8()) others.push_back(known.key);
    }
    way_out = fmt::format("take one of {}", fmt::join(others, ", "));
  }
  throw config.Error("amp.fp8.recipe",
                     fmt::format("{} needs matrix units for 8-bit floats, which {} doesn't have; "
                                 "remove it, or {}",
                                 ToString(config.amp.fp8_recipe), missing->gpu, way_out));
}

config::Dtype HalfFrom(const config::RunConfig& config) {
  return FindMissingUnits(config, &ComputeCapability::multiplies_bf16) ? config::Dtype::kFp16
                                                                       : config::Dtype::kBf16;
}

namespace {

// Whether parts of the run's model share a parameter. ModelFrom refuses tensor ranks that cannot
// share the model, but their mesh is listed, too.
bool SharesParameters(config::RunConfig config) {
  config.parallel.tensor = 1;
  return ModelFrom(config)->shares_parameters();
}

}  // namespace

Mesh MeshFrom(const config::RunConfig& config) {
  // Data ranks reduce maxima of tensors with delayed scales, and of weights whose codes they
  // gather.
  const bool codes = config.amp.fp8_recipe != config::Fp8Recipe::kNone &&
                     config.parallel.zero.value_or(0) == 3 &&
                     config.memory.weights != config::PlaceOrAuto::kHost;
  const bool maxima = config.amp.fp8_recipe == config::Fp8Recipe::kDelayed || codes;
  std::vector<MeshAxis> axes = {DataAxis(config.parallel.data_ranks(), maxima),
                                TensorAxis(config.parallel.tensor_ranks())};
  // The ranks of a stage are consecutive.
  if (const int64_t stages = config.parallel.pipeline; stages > 1) {
    axes.insert(axes.begin(), PipelineAxis(stages, SharesParameters(config)));
  }
  return Mesh(std::move(axes));
}

int64_t RanksFrom(const config::RunConfig& config) {
  return config.parallel.open_mesh() ? std::max<int64_t>(1, config.parallel.ranks)
                                     : MeshFrom(config).size();
}

Mesh MeshOfOne() { return MeshFrom({}); }

void CheckMesh(config::RunConfig& config, int64_t ranks) {
  config::RequireStarted(config, ranks);
  config::ParallelConfig& parallel = config.parallel;
  parallel.ranks = ranks;
  if (parallel.open_mesh() && ranks > 1) return;
  parallel.data = config::DataRanks(config, ranks);
  parallel.tensor = parallel.tensor_ranks();
  parallel.CloseWithoutEffect();
}

}  // namespace plimsoll::trainer
