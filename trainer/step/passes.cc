#include "trainer/step/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "adapters/lora_pass.h"
#include "amp/fp8.h"
#include "amp/low_gradients.h"
#include "amp/mixed_precision.h"
#include "base/axes.h"
#include "checkpointing/offload.h"
#include "checkpointing/recompute.h"
#include "checkpointing/retention_policy.h"
#include "graph/autodiff.h"
#include "graph/fuse.h"
#include "graph/micro_steps.h"
#include "graph/simplify.h"
#include "graph/step_passes.h"
#include "inference/kv_cache.h"
#include "ops/convolution/pad_channels.h"
#include "ops/stored_attention/stored_attention.h"
#include "optim/host_parameters.h"
#include "parallel/cut_stage.h"
#include "parallel/gather_codes.h"
#include "parallel/sync_norm.h"
#include "parallel/tensor_gradients.h"
#include "parallel/zero_parameters.h"
#include "parallel/zero_state.h"
#include "parallel/zero_weights.h"
#include "runtime/workspaces.h"
#include "trainer/step/pass_options.h"

namespace plimsoll::trainer {
namespace {

using graph::Carry;
using graph::Fact;
using graph::Facts;
using graph::Pass;
using graph::PassPipeline;
using graph::Program;

// Makes kernels' scratch memory tensors of the program.
class Workspaces : public graph::Pass {
 public:
  explicit Workspaces(const runtime::PlannedDevice& device) : device_(device) {}
  std::string_view name() const override { return "workspaces"; }
  graph::Contract contract() const override { return {.gives = {Fact::kScratched}, .spoils = {}}; }
  graph::PassResult Run(Program& program) override {
    return {runtime::AddWorkspaces(program, device_), "scratch of kernels added"};
  }

 private:
  runtime::PlannedDevice device_;
};

// Replaces a pass that debug.without names.
class LeftOut : public Pass {
 public:
  explicit LeftOut(const Pass& pass) : name_(pass.name()), gives_(pass.contract().gives) {}
  std::string_view name() const override { return name_; }
  graph::Contract contract() const override { return {.gives = gives_, .spoils = {}}; }
  graph::PassResult Run(Program&) override { return {false, "left out (debug.without)"}; }

 private:
  const std::string name_;
  const Facts gives_;
};

// Only training uses FP8: evaluation and generation use the 16-bit weights, which are also
// exported.
bool HasFp8(const Making& m, Slice) { return m.options.amp.fp8.enabled && m.trains(); }

// Whether this is a training program to which no micro-steps are joined later.
bool IsNotJoined(const Making& m, Slice) {
  return m.trains() && m.options.micro_steps_per_program == 1;
}

// Whether ranks gather weights after each rank has updated its own shard.
bool GathersUpdated(const Making& m, Slice) {
  return m.trains() && ZeroOf(m.options) > 0 && !DividesWeights(m.options) &&
         m.purpose.carry != Carry::kAccumulate;
}

bool IsStage(const Making& m, Slice) { return HasStages(m.options); }

// Whether a program gets scratch memory now. Programs that are cut into parts get it after the cut.
bool NeedsScratch(const Making& m, Slice slice) {
  return slice != Slice::kFinish || !IsCutIntoParts(m.options, m.purpose);
}

bool Divides(const Making& m, Slice) { return DividesWeights(m.options); }

// Whether ranks gather 8-bit codes of weights. Weights on the host are excluded: to find their
// largest magnitudes, they would be copied to the device once more before the first gather.
bool GathersCodes(const Making& m, Slice slice) {
  return HasFp8(m, slice) && DividesWeights(m.options) && !m.options.on_host.weights;
}

// Whether updates may move. They may once no further micro-step will be joined.
bool HasUpdates(const Making& m, Slice slice) {
  return m.purpose.update && (slice == Slice::kJoin ? m.joins_all() : IsNotJoined(m, slice));
}

// Whether programs get copies from the host now. Programs that are joined later get them after the
// join.
bool CopiesFromHost(const Making& m, Slice slice) {
  const bool joined_later = m.trains() && m.options.micro_steps_per_program > 1;
  return m.options.on_host.any() && (slice != Slice::kFinish || !joined_later);
}

bool Always(const Making&, Slice) { return true; }
bool Trains(const Making& m, Slice) { return m.trains(); }

// The purpose of a program for an update's last micro-step, for any objective.
Purpose OfLastMicroStep() {
  return {.kind = ProgramKind::kTrain, .update = true, .metrics = {"loss"}};
}

template <typename P, typename... Args>
std::unique_ptr<Pass> New(Args&&... args) {
  return std::make_unique<P>(std::forward<Args>(args)...);
}

}  // namespace

const std::vector<PassRow>& PassTable() {
  using enum Slice;
  using M = const Making&;
  // clang-format off
  static const std::vector<PassRow> table = {
      {"lora", {kDraft}, "with adapters", [](M m, Slice) { return m.options.lora.enabled(); },
       [](M m, Slice) { return New<adapters::LoraPass>(m.options.lora, m.trains()); }},
      {"stored_attention", {kDraft}, "`model.attention: stored`",
       [](M m, Slice) {
         return m.options.stored_attention && m.purpose.kind != ProgramKind::kLogits; },
       [](M, Slice) { return New<ops::StoredAttention>(); }},
      {"amp", {kDraft}, "", Always,
       [](M m, Slice) { return New<amp::MixedPrecision>(m.options.amp); }},
      {"mark_fp8", {kDraft}, "training with `amp.fp8`", HasFp8,
       [](M m, Slice) { return New<amp::MarkFp8>(m.options.amp); }},
      {"pad_channels", {kDraft}, "on a GPU",
       [](M m, Slice) { return m.options.device == runtime::DeviceKind::kCuda; },
       [](M, Slice) { return New<ops::PadChannels>(); }},
      {"tensor_parallel", {kDraft}, "ranks of the tensor axis",
       [](M m, Slice) { return m.tensor.ranks > 1; },
       [](M m, Slice) { return New<parallel::TensorParallel>(m.tensor); }},
      {"sync_norm", {kDraft}, "`parallel.sync_norm`",
       [](M m, Slice) { return m.options.sync_norm && DataRanks(m) > 1 && m.trains(); },
       [](M m, Slice) { return New<parallel::SyncNorm>(DataRanks(m)); }},
      {"kv_cache", {kDraft}, "generation", [](M m, Slice) { return m.purpose.cached; },
       [](M m, Slice) { return New<inference::KvCache>(m.options.generate_context); }},
      {"autodiff", {kDraft}, "training", Trains,
       [](M m, Slice) { return New<graph::Autodiff>(AutodiffFrom(m)); }},
      {"low_gradients", {kDraft}, "`amp.gradients`",
       [](M m, Slice) { return m.trains() && m.options.amp.low_gradients; },
       [](M, Slice) { return New<amp::LowGradients>(); }},
      {"fp8_products", {kDraft}, "training with `amp.fp8`", HasFp8,
       [](M m, Slice) { return New<amp::Fp8Products>(Fp8From(m)); }, "amp.fp8.recipe"},
      {"update", {kDraft}, "the last micro-step",
       [](M m, Slice) { return m.trains() && m.purpose.update; },
       [](M m, Slice) { return New<optim::Update>(UpdateFrom(m)); }},
      {"tensor_gradients", {kDraft}, "ranks of the tensor axis",
       [](M m, Slice) { return m.trains() && m.purpose.update && m.tensor.ranks > 1; },
       [](M m, Slice) { return New<parallel::TensorGradients>(m.tensor); }},
      {"zero_state", {kDraft}, "training with ZeRO",
       [](M m, Slice) { return m.trains() && ZeroOf(m.options) > 0; },
       [](M m, Slice) { return New<parallel::ZeroState>(ZeroStateFrom(m)); }},
      {"cut_stage", {kDraft}, "ranks of the pipeline axis", IsStage,
       [](M m, Slice) { return New<parallel::CutStage>(CutStageFrom(m)); }},
      {"zero_weights", {kDraft}, "ZeRO 1 and 2, the first micro-step", GathersUpdated,
       [](M m, Slice) { return New<parallel::ZeroWeights>(ZeroWeightsFrom(m)); }},
      {"zero_parameters", {kDraft}, "ZeRO 3", Divides,
       [](M m, Slice) { return New<parallel::ZeroParameters>(DataRanks(m)); }},
      {"gather_codes", {kDraft}, "ZeRO 3, training with `amp.fp8`", GathersCodes,
       [](M m, Slice) { return New<parallel::GatherCodes>(GatherCodesFrom(m)); }},
      {"data_parallel", {kDraft}, "ranks of the data axis",
       [](M m, Slice) { return DataRanks(m) > 1 && m.purpose.kind != ProgramKind::kLogits; },
       [](M m, Slice) { return New<parallel::DataParallel>(DataParallelFrom(m)); }},
      {"place_on_host", {kDraft, kExchange}, "parameters, state or gradients on the host",
       [](M m, Slice) { return m.options.on_host.any(); },
       [](M m, Slice) { return New<optim::PlaceOnHost>(m.options.on_host); }},
      {"simplify", {kDraft}, "", Always, [](M, Slice) { return New<graph::Simplify>(); }},
      {"fuse", {kDraft}, "", Always,
       [](M m, Slice) { return New<graph::Fuse>(Fusions(m.options)); }},
      {"tags", {kTags}, "training", Trains,
       [](M m, Slice) {
         return New<checkpointing::TagActivations>(
             m.options.CheckpointingOf(m.purpose.objective.name)); }},
      {"recompute", {kFinish}, "training", Trains,
       [](M, Slice) { return New<checkpointing::Recompute>(); }},
      {"fuse", {kFinish}, "", Always, [](M, Slice) { return New<graph::Fuse>(LateFusions()); }},
      {"prefetch_parameters", {kFinish}, "ZeRO 3", Divides,
       [](M, Slice) { return New<parallel::PrefetchParameters>(); }},
      {"micro_steps", {kJoin, kUpdates}, "", Always,
       [](M m, Slice slice) {
         return New<graph::AppendMicroSteps>(m.next, m.own, FactsBefore(m, slice)); }},
      {"blocks_first", {kJoin}, "`train.blocks_first`",
       [](M m, Slice) { return m.options.blocks_first && m.joins_all(); },
       [](M, Slice) { return New<graph::BlocksFirst>(); }, "train.blocks_first"},
      {"join_gathers", {kJoin}, "`train.blocks_first` with ZeRO 3",
       [](M m, Slice) {
         return m.options.blocks_first && m.joins_all() && DividesWeights(m.options); },
       [](M, Slice) { return New<parallel::JoinGathers>(); }},
      {"share_forward", {kUpdates}, "", Always,
       [](M, Slice) { return New<graph::ShareForward>(); }},
      {"update_in_backward", {kFinish, kJoin}, "`optimizer.in_backward`",
       [](M m, Slice slice) {
         return HasUpdates(m, slice) && m.options.update_in_backward.has_value(); },
       [](M m, Slice slice) { return New<optim::UpdateInBackward>(InBackwardFrom(m, slice == kJoin)); }},
      {"temporary_gradients", {kJoin}, "all micro-steps of an update",
       [](M m, Slice) { return m.joins_all(); },
       [](M, Slice) { return New<graph::TemporaryGradients>(); }},
      {"slice_updates", {kFinish, kJoin}, "parameters, state or gradients on the host",
       [](M m, Slice slice) { return HasUpdates(m, slice) && m.options.on_host.any(); },
       [](M, Slice) { return New<optim::SliceUpdates>(); }},
      {"host_parameters", {kFinish, kJoin, kExchange}, "parameters, state or gradients on the host",
       CopiesFromHost, [](M m, Slice) { return New<optim::HostParameters>(m.options.on_host); }},
      {"offload", {kFinish}, "training", Trains,
       [](M m, Slice) { return New<checkpointing::Offload>(OffloadFrom(m.options)); }},
      {"loss_by_loss", {kFinish}, "training, one micro-step a program", IsNotJoined,
       [](M m, Slice) { return New<graph::LossByLoss>(m.purpose.metrics.front()); }},
      {"workspaces", {kFinish, kJoin, kUpdates, kParts}, "", NeedsScratch,
       [](M m, Slice) { return New<Workspaces>(runtime::PlannedDevice{
             m.options.device, m.options.threads, m.options.capability}); }},
  };
  // clang-format on
  return table;
}

std::vector<std::unique_ptr<Pass>> PassesOf(const Making& making, const std::set<Slice>& slices) {
  std::vector<std::unique_ptr<Pass>> passes;
  for (const PassRow& row : PassTable()) {
    const auto slice =
        std::ranges::find_if(row.slices, [&](Slice of) { return slices.contains(of); });
    if (slice == row.slices.end() || !row.applies(making, *slice)) continue;
    std::unique_ptr<Pass> pass = row.make(making, *slice);
    if (making.options.without.contains(row.name)) pass = New<LeftOut>(*pass);
    passes.push_back(std::move(pass));
    if (row.name == "autodiff" && making.options.added_pass) {
      passes.push_back(making.options.added_pass(making.purpose.carry));
    }
  }
  return passes;
}

PassPipeline Passes(const Making& making, const std::set<Slice>& slices) {
  PassPipeline passes(making.options.dump_directory);
  passes.set_stop_after(making.options.stop_after);
  for (std::unique_ptr<Pass>& pass : PassesOf(making, slices)) passes.Add(std::move(pass));
  passes.Check(FactsBefore(making, *slices.begin()));
  return passes;
}

Facts FactsBefore(const Making& making, Slice slice) {
  std::set<Slice> before;
  if (slice == Slice::kFinish) before = {Slice::kDraft, Slice::kTags};
  if (slice == Slice::kJoin || slice == Slice::kUpdates || slice == Slice::kParts) {
    before = {Slice::kDraft, Slice::kTags, Slice::kFinish};
  }
  if (before.empty()) return {};
  PassPipeline passes;
  for (std::unique_ptr<Pass>& pass : PassesOf(making, before)) passes.Add(std::move(pass));
  return passes.Check({});
}

PassPipeline PassesOfParts(const CompileOptions& options) {
  return Passes({.options = options, .purpose = OfLastMicroStep()}, {Slice::kParts});
}

PassPipeline PassesOfJoined(const CompileOptions& options, Slice slice,
                            std::vector<const Program*> next,
                            std::function<bool(const graph::Tensor&)> own) {
  return Passes({.options = options,
                 .purpose = OfLastMicroStep(),
                 .tensor = {.ranks = options.mesh.ranks(kTensorAxis), .parts = {}},
                 .next = std::move(next),
                 .own = std::move(own)},
                {slice});
}

graph::Contract ContractOf(const PassRow& row) {
  CompileOptions options;
  options.update_in_backward.emplace();
  return row.make({.options = options, .purpose = OfLastMicroStep()}, row.slices.front())
      ->contract();
}

std::string PassesText() {
  // Names of slices in the order of Slice.
  static constexpr std::string_view kSlices[] = {"draft",   "tags",     "finish", "join",
                                                 "updates", "exchange", "parts"};
  std::string text =
      "| pass | slices | when | needs | gives | spoils |\n|---|---|---|---|---|---|\n";
  for (const PassRow& row : PassTable()) {
    std::vector<std::string_view> slices;
    for (const Slice slice : row.slices) slices.push_back(kSlices[static_cast<size_t>(slice)]);
    const graph::Contract contract = ContractOf(row);
    text += fmt::format("| `{}`{} | {} | {} | {} | {} | {} |\n", row.name,
                        contract.keeps_numbers ? "\\*" : "", fmt::join(slices, ", "),
                        row.when.empty() ? "always" : row.when, graph::Text(contract.needs),
                        graph::Text(contract.gives), graph::Text(contract.spoils));
  }
  return text;
}

std::string WhyNotStopAfter(std::string_view pass) {
  std::set<std::string_view> names;
  for (const PassRow& row : PassTable()) names.insert(row.name);
  if (names.contains(pass)) return "";
  return fmt::format("there is no pass '{}'; there are {}", pass, fmt::join(names, ", "));
}

std::string WhyNotWithout(std::string_view pass) {
  if (std::string why = WhyNotStopAfter(pass); !why.empty()) return why;
  std::set<std::string_view> names;
  for (const PassRow& row : PassTable()) {
    if (ContractOf(row).keeps_numbers) names.insert(row.name);
  }
  if (names.contains(pass)) return "";
  return fmt::format("programs need '{}'; what changes no number may be left out: {}", pass,
                     fmt::join(names, ", "));
}

}  // namespace plimsoll::trainer
