// What a step is compiled with.
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
  // How many of these a program holds: a divisor of `accumulate`.
  int64_t micro_steps_per_program = 1;
  // Updates of one micro-step whose objectives read the same data are one program, in which what
  // the earlier update doesn't change is computed once. Changes no bit.
  bool join_updates = true;
  // All micro-steps go through a block before any goes through the next. Only where one program
  // holds all of them.
  bool blocks_first = false;
  Mesh mesh = {};  // of the ranks that make the step together
  // This one; it says which stage is compiled, and where its own parts of tensors lie.
  int64_t rank = 0;
  // How many blocks each stage has, where the mesh has a pipeline axis.
  std::vector<int64_t> stages = {};
  // ZeRO's stage: what the data axis's ranks shard among themselves (docs/how/parallelism.md).
  int64_t zero = 0;
  parallel::DataParallelOptions data_parallel;
  bool sync_norm = false;          // batch norms see the samples of all data ranks
  bool sequence_parallel = false;  // ranks of the tensor axis share the rows between layers, too
  bool train = true;
  bool evaluate = false;  // also a forward-only program over [micro_batch, sequence]
  bool features = false;  // which then leaves a classifier's features as well (kClassFeatures)
  // Also programs for the next-token logits of that many texts at once, each seen through its last
  // generate_context tokens. Keys and values of these are carried in a cache, or, without it, made
  // again for every token.
  int64_t generate_rows = 0;
  int64_t generate_context = 0;
  bool cache = true;
  // In training and evaluation: attention's scores and probabilities are tensors of the program
  // (ops/stored_attention/stored_attention.h). Not with a tensor axis.
  bool stored_attention = false;
  adapters::Lora lora;
  amp::AmpOptions amp;
  optim::UpdateOptions update;  // of training; of objectives that have none of their own
  std::map<std::string, optim::UpdateOptions> updates = {};  // of objectives, by name
  // Parameters that keep their values, as patterns of names: no gradients, no optimizer state.
  std::vector<std::string> frozen = {};
  bool snapshot_copy = false;  // also a program that copies what a snapshot holds
  // It copies in groups of at most these bytes, but for a larger tensor; more where there is much
  // to copy.
  int64_t snapshot_group_bytes = int64_t{16} << 20;
  optim::HostParametersOptions on_host = {};  // what of the parameters lives on the host
  // Updates that wait for no norm of all gradients move into the backward pass.
  std::optional<optim::UpdateInBackwardOptions> update_in_backward = std::nullopt;
  checkpointing::Options checkpointing;
  // With Policy::kExplicit: what isn't kept in the programs of an objective, by its name and the
  // tensor's.
  using Retentions = std::map<std::string, std::map<std::string, graph::Retention>>;
  Retentions retention = {};
  // The same of each stage of a pipeline; empty: `retention` holds for all.
  std::vector<Retentions> stage_retentions = {};
  bool draft = false;  // stop before the tags: what the budget solver starts from; no plan is made
  double init_loss_scale = 65536;  // where update scales the loss
  runtime::DeviceKind device = runtime::DeviceKind::kCpu;
  std::string gpu;                  // whose built-in rates time the copies of offloaded activations
  bool fuse_gelu_gradient = false;  // on a GPU, in 16 bits: into the product that it follows
  // In training on a GPU: batches that threads prepare in pinned memory of the host, from where the
  // GPU copies them (trainer/step/input_places.h). 0: none.
  int64_t input_places = 0;
  int64_t evaluation_places = 0;  // the same for evaluations, in memory of the host's own
  int threads = 1;                // on the CPU, kernels' workspaces depend on it
  std::string dump_directory;     // numbered program dumps; empty: none
  // debug.stop_after: the pass after which Compile() throws a UserError; empty: none.
  std::string stop_after;
  // debug.without: passes that keep numbers and are left out.
  std::set<std::string, std::less<>> without;
  // Makes a pass for a training program, which runs directly after autodiff: it may add a state of
  // its own (graph::Merge). Empty: none.
  std::function<std::unique_ptr<graph::Pass>(graph::Carry)> added_pass;

  // Of the objective of that name.
  optim::UpdateOptions UpdateOf(const std::string& objective) const {
    const auto found = updates.find(objective);
    optim::UpdateOptions options = found == updates.end() ? update : found->second;
    options.objective = objective;
    // Ranks draw their own dropout, but round equal sums of gradients alike.
    if (parallel::DrawDifferently("rng", mesh)) options.rng = "update_rng";
    return options;
  }

  // In the programs of that objective.
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

  // Names of parameters that snapshots leave out: a model whose adapters are trained, which is
  // where it was loaded from.
  std::vector<std::string> KeptElsewhere() const {
    return lora.enabled() ? frozen : std::vector<std::string>();
  }
};

}  // namespace plimsoll::trainer
