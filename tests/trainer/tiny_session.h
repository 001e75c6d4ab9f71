// A small model with random tokens in a session, for tests of whole steps.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "base/axes.h"
#include "models/model.h"
#include "runtime/caching_allocator/caching_allocation.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/ranks/mesh_ranks.h"
#include "tests/models/published.h"
#include "tests/support/test_device.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

inline models::ModelSpec TinyGpt2() { return models::Gpt2Spec(2, 32, 2, 96, 16); }

inline models::ModelSpec TinyLlama() {
  return models::LlamaSpec({2, 32, 2, 1, 16, 80, 96, 16, false});
}

struct TinyRun {
  models::ModelSpec spec = TinyGpt2();
  int64_t micro_batch = 4;
  int64_t sequence = 16;
  int64_t accumulate = 1;
  int64_t micro_steps_per_program = 1;
  bool blocks_first = false;
  int threads = 2;
  int steps = 5;
  double lr = 1e-3;
  double ignored = 0;                     // share of targets that carry no loss
  bool repeat = false;                    // every step reads the first step's tokens
  std::map<int, float> loss_limits = {};  // of some steps, with an update that can skip
  optim::UpdateOptions update = {};
  std::vector<std::string> frozen = {};
  std::vector<std::string> lora = {};  // targets of adapters of rank 3; empty: none
  double lora_dropout = 0;
  std::vector<std::string> lora_saved = {};  // modules trained in full, in addition to them
  bool stored_attention = false;
  amp::AmpOptions amp = {};
  bool state_on_host = false, weights_on_host = false, gradients_on_host = false;  // of any size
  // The blocks that have them there: HostParametersOptions::blocks.
  std::vector<std::string> host_blocks = {};
  bool update_in_backward = false;  // of all parameters
  double init_loss_scale = 65536;   // used when the update scales the loss
  checkpointing::Options checkpointing = {};
  runtime::ExecutorOptions executor = {};
  bool cuda = TestsOnGpus();  // on a GPU
  bool evaluate = false;
  std::set<std::string, std::less<>> without = {};  // passes
  std::function<std::unique_ptr<graph::Pass>(graph::Carry)> added_pass = {};
  void (*change)(CompiledStep&) = nullptr;  // of what is compiled
  std::optional<runtime::CachingOptions> caching = std::nullopt;
  // Data ranks share the sequences of a step, tensor ranks share the model.
  const runtime::MeshRanks* ranks = nullptr;  // nullptr: alone
  runtime::Device* device = nullptr;          // nullptr: one that Train makes
  int64_t zero = 0;
  bool sequence_parallel = false;
  std::vector<int64_t> stages = {};    // blocks of each, along the pipeline axis of the ranks
  runtime::StageLink* link = nullptr;  // in place of that of the ranks
  std::function<void(Session&, int step, const StepRun&)> before_run = {};
  int64_t bucket_bytes = parallel::DataParallelOptions().bucket_bytes;
  int copy_after = -1;            // the state is copied after this step, while later steps run
  int64_t copied_at_once = 4096;  // CompileOptions::snapshot_group_bytes
};

// Updates the matrices of the run's model by Muon.
void UseMuon(TinyRun& run);

using TinyState = std::map<std::string, std::vector<std::byte>>;

struct TinyResult {
  std::vector<double> losses, grad_norms, evaluations;  // of weights and of averages in turn
  StepMetrics last;
  std::vector<std::vector<float>> weights;  // after the last step, as float32
  TinyState state, copied;   // saved by this rank: after the last step, and as copied before
  std::vector<int32_t> rng;  // the slot of the last step; empty: there is none
  int64_t used_bytes = 0, arena_bytes = 0, host_arena_bytes = 0;
  int64_t tensors_end = 0;  // where the arena's last tensor ends that is not a workspace
  runtime::AllocatorStats caching, host_caching;
  int64_t replayed_bytes = 0;  // what the replay says that the caching allocator reserves
};

CompileOptions OptionsOf(const TinyRun& run, const models::Model& model,
                         runtime::DeviceKind device);

// Trains for some steps. The tokens of a step depend only on its number and the sequences per step,
// not on their split into micro-steps and ranks.
TinyResult Train(const TinyRun& run);

// Equal to the bit: losses, norms, evaluations and weights.
void ExpectSameNumbers(const TinyResult& actual, const TinyResult& expected);
// And the whole state, with what was copied of it.
void ExpectSame(const TinyResult& actual, const TinyResult& expected);

}  // namespace plimsoll::trainer
