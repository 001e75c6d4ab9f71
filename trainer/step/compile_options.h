// The options for compiling a step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "amp/precision_policy.h"
#include "base/axes.h"
#include "base/compute_capability.h"
#include "base/mesh.h"
#include "checkpointing/retention_policy.h"
#include "graph/autodiff.h"
#include "graph/pass.h"
#include "optim/host_parameters.h"
#include "optim/update.h"
#include "optim/update_in_backward.h"
#include "parallel/data_parallel.h"
#include "parallel/rng_slots.h"
#include "runtime/device_kind.h"

namespace plimsoll::trainer {

struct CompileOptions {
  int64_t micro_batch = 1;  // sequences per micro-step
  int64_t sequence = 1;     // tokens per sequence
  int64_t accumulate = 1;   // micro-steps per update
  // The number of micro-steps in one program: a divisor of `accumulate`.
  int64_t micro_steps_per_program = 1;
  // Joins updates of one micro-step whose objectives read the same data into one program. That
  // program computes only once what the first update does not change. Results stay bit-identical.
  bool join_updates = true;
  // All micro-steps run a block before any micro-step runs the next block. One program must then
  // hold all micro-steps.
  bool blocks_first = false;
  Mesh mesh = {};  // the mesh of the ranks that run the step together
  // This rank. It determines the compiled stage and this rank's shards of tensors.
  int64_t rank = 0;
  // The number of blocks of each stage, if the mesh has a pipeline axis.
  std::vector<int64_t> stages = {};
  // The ZeRO stage: which state the data ranks shard (docs/how/parallelism.md).
  int64_t zero = 0;
  parallel::DataParallelOptions data_parallel;
  bool sync_norm = false;          // batch norms use the samples of all data ranks
  bool sequence_parallel = false;  // tensor ranks also shard the rows between layers
  bool train = true;
  bool evaluate = false;  // also compile a forward-only program over [micro_batch, sequence]
  bool features = false;  // evaluation also returns a classifier's features (kClassFeatures)
  // Also compile programs that compute next-token logits for generate_rows texts at once. These
  // programs see the last generate_context tokens of each text. With `cache`, keys and values are
  // cached; otherwise they are recomputed for every token.
  int64_t generate_rows = 0;
  int64_t generate_context = 0;
  bool cache = true;
  // In training and evaluation, attention's scores and probabilities are stored as tensors of the
  // program (ops/stored_attention/stored_attention.h). Not possible with a tensor axis.
  bool stored_attention = false;
  adapters::Lora lora;
  amp::AmpOptions amp;
  optim::UpdateOptions update;  // options for objectives without an entry in `updates`
  // Maps an objective's name to its update options.
  std::map<std::string, optim::UpdateOptions> updates = {};
  // Name patterns of frozen parameters: they have no gradients and no optimizer state.
  std::vector<std::string> frozen = {};
  bool snapshot_copy = false;  // also compile a program that copies the state for a snapshot
  // The most bytes that the snapshot program copies as one group. A tensor larger than this limit
  // is a group of its own; for a large state the limit grows.
  int64_t snapshot_group_bytes = int64_t{16} << 20;
  optim::HostParametersOptions on_host = {};  // parameters and state on the host
  // Moves updates into the backward pass, unless the updates wait for the norm of all gradients.
  std::optional<optim::UpdateInBackwardOptions> update_in_backward = std::nullopt;
  checkpointing::Options checkpointing;
  // For Policy::kExplicit: maps an objective's name to a map from tensor names to retentions. A
  // retention says how a tensor that is not kept is restored.
  using Retentions = std::map<std::string, std::map<std::string, graph::Retention>>;
  Retentions retention = {};
  // `retention` for each pipeline stage. Empty means that `retention` holds for all stages.
  std::vector<Retentions> stage_retentions = {};
  // Stop before the passes that mark kept activations, without a memory plan. The budget solver
  // starts from such a draft.
  bool draft = false;
  double init_loss_scale = 65536;  // initial loss scale, if the update scales the loss
  runtime::DeviceKind device = runtime::DeviceKind::kCpu;
  ComputeCapability capability;  // of the GPU
  // The GPU whose built-in rates predict the time of copies of offloaded activations.
  std::string gpu;
  // Fuse GELU's gradient into the matrix product before it; only on a GPU and in 16 bits.
  bool fuse_gelu_gradient = false;
  // In training on a GPU: the number of batches that threads prepare in pinned host memory, from
  // where the GPU copies them (trainer/step/input_places.h). 0 means no such memory.
  int64_t input_places = 0;
  // The number of batches prepared for evaluations, in ordinary host memory.
  int64_t evaluation_places = 0;
  int threads = 1;             // affects the size of kernels' workspaces on the CPU
  std::string dump_directory;  // where numbered program dumps are written; empty means no dumps
  // debug.stop_after: the pass after which Compile() throws a UserError. Empty means no such pass.
  std::string stop_after;
  // debug.without: the passes to leave out. Leaving them out does not change results.
  std::set<std::string, std::less<>> without;
  // Makes a pass for a training program. The pass runs directly after autodiff and may add a state
  // of its own (graph::Merge). An empty function means no such pass.
  std::function<std::unique_ptr<graph::Pass>(graph::Carry)> added_pass;

  // The update options for the objective named `objective`.
  optim::UpdateOptions UpdateOf(const std::string& objective) const {
    const auto found = updates.find(objective);
    optim::UpdateOptions options = found == updates.end() ? update : found->second;
    options.objective = objective;
    // Ranks draw different random numbers for dropout. To round sums of gradients, which are equal
    // on all ranks, all ranks draw the same random numbers.
    if (parallel::DrawDifferently("rng", mesh)) options.rng = "update_rng";
    return options;
  }

  // The checkpointing options for the programs of the objective named `objective`.
  checkpointing::Options CheckpointingOf(const std::string& objective) const {
    checkpointing::Options own = checkpointing;
    const Retentions& made =
        stage_retentions.empty()
            ? retention
            : stage_retentions.at(static_cast<size_t>(mesh.Coordinate(rank, kPipelineAxis)));
    const auto found = made.find(objective);
    if (found != made.end()) {
      own.retention.insert(found->second.begin(), found->second.end());
    }
    return own;
  }

  // Names of parameters that snapshots leave out. With adapters these are the base model's
  // parameters, because the run can load the base model again.
  std::vector<std::string> KeptElsewhere() const {
    return lora.enabled() ? frozen : std::vector<std::string>();
  }
};

}  // namespace plimsoll::trainer
