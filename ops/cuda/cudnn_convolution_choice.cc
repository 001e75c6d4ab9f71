#include "ops/cuda/cudnn_convolution_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"
#include "gpu/check.h"
#include "ops/cuda/choices/choice_options.h"
#include "ops/cuda/choices/choice_store.h"
#include "ops/cuda/choices/device_name.h"
#include "ops/cuda/choices/fastest.h"

namespace plimsoll::ops {
namespace {

const char* Name(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward:
      return "forward";
    case ConvPass::kDx:
      return "dx";
    case ConvPass::kDw:
      return "dw";
  }
  throw InternalError("no such pass of a convolution");
}

std::string Text(const Spatial& s) { return fmt::format("{}x{}x{}", s[0], s[1], s[2]); }

// The result has no convolution if cuDNN has no plan.
ChosenConvolution FirstPlan(const ConvProblem& problem, gpu::Libraries& libraries) {
  auto convolution = std::make_unique<CudnnConvolution>(problem, libraries);
  for (size_t plan = 0; plan < convolution->names().size(); ++plan) {
    if (convolution->Build(plan)) return {std::move(convolution), plan};
  }
  return {};
}

// The result has no convolution if cuDNN doesn't offer that plan.
ChosenConvolution PlanNamed(const std::string& name, const ConvProblem& problem,
                            gpu::Libraries& libraries) {
  auto convolution = std::make_unique<CudnnConvolution>(problem, libraries);
  const std::vector<std::string>& names = convolution->names();
  const auto plan =
      static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  if (plan == names.size() || !convolution->Build(plan)) return {};
  return {std::move(convolution), plan};
}

// Whether the work that `enqueue` puts on a stream can be recorded as a part of a CUDA graph and
// replayed. The work is captured, and must consist of kernels and memsets. A copy could read host
// memory that no longer exists when the graph runs (runtime/cuda/cuda_recording.h), and one such
// copy keeps the whole program from being recorded. The kernels must have run before; they don't
// run here.
bool IsRecordable(FunctionRef<bool(cudaStream_t)> enqueue) {
  cudaStream_t stream = nullptr;
  gpu::Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
  gpu::Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  const bool enqueued = enqueue(stream);
  cudaGraph_t graph = nullptr;
  bool recordable = cudaStreamEndCapture(stream, &graph) == cudaSuccess && enqueued;
  size_t count = 0;
  if (recordable) gpu::Check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (recordable) gpu::Check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    recordable &= cudaGraphNodeGetType(node, &type) == cudaSuccess &&
                  (type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset ||
                   type == cudaGraphNodeTypeEmpty);
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  cudaGetLastError();  // clears the error of a capture that failed
  return recordable;
}

size_t ResultBytes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const int64_t elements = problem.pass == ConvPass::kForward ? g.rows_out() * g.out_channels
                           : problem.pass == ConvPass::kDx    ? g.rows_in() * g.in_channels
                                                              : g.out_channels * g.patch();
  return static_cast<size_t>(elements * graph::ByteSize(problem.dtype));
}

// Frees the plans that are not chosen.
std::optional<Choice> FastestPlan(const ConvProblem& problem, gpu::Libraries& libraries,
                                  cudaStream_t stream, const ConvBuffers& buffers) {
  CudnnConvolution convolution(problem, libraries);
  FastestSearch search(stream, {{static_cast<std::byte*>(buffers.result), ResultBytes(problem)}});
  std::vector<size_t> candidates;
  for (size_t plan = 0; plan < convolution.names().size(); ++plan) {
    if (candidates.size() == kMostConvPlans) break;
    if (!convolution.Build(plan)) continue;
    const auto run = [&, plan](cudaStream_t on) {
      return convolution.Run(plan, libraries, on, buffers).empty();
    };
    if (!run(stream) || !IsRecordable(run)) continue;
    search.Try([run, stream] {
      if (!run(stream)) throw InternalError("a cuDNN convolution that ran before does not run");
    });
    candidates.push_back(plan);
  }
  if (candidates.empty()) return std::nullopt;
  const FastestSearch::Result fastest = search.Fastest();
  return Choice{convolution.names()[candidates[fastest.candidate]], fastest.microseconds};
}

// The choices of this process.
class ConvChoices {
 public:
  // Never destroyed, because cuDNN may be unloaded before it at the end of the process.
  static ConvChoices& Get() {
    static auto* const choices = new ConvChoices;
    return *choices;
  }

  const ChosenConvolution* Find(const ConvProblem& problem, gpu::Libraries& libraries) {
    const std::lock_guard lock(mutex_);
    Entry& entry = EntryOf(problem);
    if (!entry.known) entry.chosen = FirstPlan(problem, libraries);
    entry.known = true;
    return entry.chosen.convolution ? &entry.chosen : nullptr;
  }

  void Choose(const ConvProblem& problem, gpu::Libraries& libraries, cudaStream_t stream,
              const ConvBuffers& buffers) {
    const std::lock_guard lock(mutex_);
    Entry& entry = EntryOf(problem);
    if (entry.prepared) return;
    entry.prepared = true;
    if (MeasuresChoices()) {
      entry.chosen = Measured(problem, libraries, stream, buffers);
    } else if (!entry.known) {
      entry.chosen = FirstPlan(problem, libraries);
    }
    entry.known = true;
  }

 private:
  struct Entry {
    bool known = false;     // whether it is known what runs the problem: a plan, or no plan
    bool prepared = false;  // whether the plan was chosen by ChooseConvolution, not just the first
    ChosenConvolution chosen;
  };

  Entry& EntryOf(const ConvProblem& problem) {
    if (generation_ != ChoiceGeneration()) {
      entries_.clear();
      stores_.clear();
    }
    generation_ = ChoiceGeneration();
    int device = 0;
    gpu::Check(cudaGetDevice(&device), "cudaGetDevice");
    return entries_[{device, problem}];
  }

  ChosenConvolution Measured(const ConvProblem& problem, gpu::Libraries& libraries,
                             cudaStream_t stream, const ConvBuffers& buffers) {
    ChosenConvolution last;  // the last plan that was accepted
    const auto accepted = [&](const std::string& name) {
      last = PlanNamed(name, problem, libraries);
      return last.convolution != nullptr;
    };
    const auto measure = [&] { return FastestPlan(problem, libraries, stream, buffers); };
    const std::optional<std::string> name =
        StoreOf(libraries).Choose(KeyOf(problem), accepted, measure);
    if (!name) return FirstPlan(problem, libraries);  // no plan can be recorded, or none exists
    if (last.convolution != nullptr && last.name() == *name) return last;
    ChosenConvolution chosen = PlanNamed(*name, problem, libraries);
    if (chosen.convolution == nullptr)
      throw InternalError("cuDNN offers no plan " + *name + " now");
    return chosen;
  }

  // The store of the current device, which devices of one kind share.
  ChoiceStore& StoreOf(gpu::Libraries& libraries) {
    const std::string device = NameWithLibrary(libraries, "cudnn", cudnnGetVersion());
    return stores_.try_emplace(device, "convolutions", "plimsoll convolutions 2", device)
        .first->second;
  }

  std::mutex mutex_;
  uint64_t generation_ = 0;
  std::map<std::string, ChoiceStore> stores_;
  // Maps a device and a problem to the entry.
  std::map<std::pair<int, ConvProblem>, Entry> entries_;
};

}  // namespace

const ChosenConvolution* FindConvolution(const ConvProblem& problem, gpu::Libraries& libraries) {
  return ConvChoices::Get().Find(problem, libraries);
}

void ChooseConvolution(const ConvProblem& problem, gpu::Libraries& libraries, cudaStream_t stream,
                       const ConvBuffers& buffers) {
  ConvChoices::Get().Choose(problem, libraries, stream, buffers);
}

// The key assumes tensors aligned to 16 bytes, as cuDNN's plans do.
std::string KeyOf(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  return fmt::format(
      "{}-{}{}-n{}-c{},{}-g{}-in{}-kernel{}-out{}-stride{}-pad{}-dilation{}-align16-workspace{}",
      Name(problem.pass), graph::Name(problem.dtype), problem.tf32 ? "(tf32)" : "", g.batch,
      g.in_channels, g.out_channels, g.groups, Text(g.in), Text(g.kernel), Text(g.out),
      Text(g.stride), Text(g.pad), Text(g.dilation), problem.workspace_limit);
}

}  // namespace plimsoll::ops
