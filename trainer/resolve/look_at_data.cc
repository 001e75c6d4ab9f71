#include "trainer/resolve/look_at_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/builder.h"
#include "parallel/rng_slots.h"
#include "trainer/config/derived_values.h"
#include "trainer/config/follow_data.h"
#include "trainer/config/rank_counts.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/epochs.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/source_from.h"
#include "trainer/step/step_programs.h"

namespace plimsoll::trainer {
namespace {

// The most bytes of data that are read in full.
constexpr int64_t kMostRead = int64_t{8} << 20;
// The most bytes that FirstSlots allocates for samples.
constexpr int64_t kMostRows = int64_t{256} << 20;

// Returns which samples data rank 0 reads, in micro-batches as in training. If the size of a
// micro-batch is still open, returns the samples that StepOf returns.
data::Draws FirstDraws(const config::RunConfig& config, const models::Model& model,
                       int64_t started) {
  if (config.train.micro_batch == 0) return StepOf(config, model, started);
  return {.batch = config.train.micro_batch,
          .per_step = DrawsOf(model.objectives(), config.train.accumulate),
          .data_rank = 0,
          .data_ranks = config::DataRanks(config, started)};
}

// Slots for the inputs that data fill, with room for a few samples.
class FirstSlots {
 public:
  FirstSlots(const config::RunConfig& config, const models::Model& model, int64_t samples) {
    for (const models::Objective& objective : model.objectives()) {
      graph::Program program("loss");
      graph::Builder builder(program);
      model.Build(builder, {.batch = samples, .sequence = config.model.sequence()},
                  models::Head::kLoss, /*training=*/true, objective.name);
      for (const graph::Node& node : program.nodes()) {
        for (const graph::TensorId input : node.inputs) {
          if (input != graph::kNoTensor) Add(program.tensor(input), samples);
        }
      }
    }
    if (can_be_filled()) Allocate();
  }

  std::span<const graph::Slot> get() const { return slots_; }
  // Whether the rows take little enough memory for this check.
  bool can_be_filled() const { return bytes_ <= kMostRows; }

 private:
  // Skips the weights of the loss, which have no rows, and random draws, which are not data.
  void Add(const graph::Tensor& tensor, int64_t samples) {
    const graph::Shape& shape = tensor.type.shape;
    if (tensor.role != graph::Role::kInput || shape.rank() == 0 || shape.dim(0) != samples) return;
    if (parallel::IsRngSlot(tensor.name)) return;
    if (std::ranges::find(slots_, tensor.name, &graph::Slot::name) != slots_.end()) return;
    slots_.push_back({.name = tensor.name, .type = tensor.type, .bytes = {}});
    bytes_ += tensor.bytes();
  }

  // Allocates the rows.
  void Allocate() {
    for (graph::Slot& slot : slots_) {
      slot.bytes = rows_.emplace_back(static_cast<size_t>(slot.type.bytes()));
    }
  }

  std::vector<graph::Slot> slots_;
  int64_t bytes_ = 0;                         // bytes of all rows
  std::vector<std::vector<std::byte>> rows_;  // the bytes of each slot
};

// Returns slots for the model's inputs; nullopt if the model cannot be compiled, in which case
// compiling it later reports why.
std::optional<FirstSlots> SlotsFor(const config::RunConfig& config, const models::Model& model,
                                   int64_t samples) {
  try {
    return FirstSlots(config, model, samples);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Opens the data once, because reading it may take long. Throws the errors that training would
// throw. Returns nullptr if the data is too large to be opened for a plan, or if the model cannot
// be compiled.
std::unique_ptr<data::Source> Look(const config::RunConfig& config, const models::Model& model,
                                   int64_t started, std::optional<DataRate>* rate) {
  const int64_t micro_batch = config.train.micro_batch;
  int64_t samples = std::max<int64_t>(2, model.sample_coupling().smallest_micro_batch());
  if (micro_batch > 0) samples = std::min(samples, micro_batch);
  const std::optional<FirstSlots> slots = SlotsFor(config, model, samples);
  if (!slots) return nullptr;
  // Calls read(slots). If that fails, the error names the shapes of full micro-batches, as in
  // training.
  const auto with_slots = [&](const auto& read) {
    try {
      read(*slots);
    } catch (const UserError&) {
      const auto whole =
          micro_batch > samples ? SlotsFor(config, model, micro_batch) : std::nullopt;
      if (whole) read(*whole);
      throw;
    }
  };
  if (BytesOfData(config, model) > kMostRead) {
    with_slots([&](const FirstSlots& read) { CheckData(config, model, read.get()); });
    return nullptr;
  }
  std::unique_ptr<data::Source> source =
      SourceFrom(config, model, FirstDraws(config, model, started));
  with_slots([&](const FirstSlots& read) {
    if (read.can_be_filled()) RequireAll(config, *source, read.get());
  });
  if (slots->can_be_filled() && rate != nullptr && HasDataWorkers(config)) {
    *rate = MeasureDataRate(*source, samples, slots->get());  // the first samples were the warm-up
  }
  if (config.train.eval_every > 0) HeldOutFrom(config, *source);
  return source;
}

}  // namespace

void LookAtData(config::Loaded& loaded, int64_t started, std::optional<DataRate>* rate) {
  const config::RunConfig& config = loaded.config;
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  // As in training, reports contradictions in the file before errors in the data.
  if (!LeavesChoice(config) && FirstOpenLayout(config) == nullptr) CompileFrom(config, *model);
  const bool counts = !config::EpochsKey(config).empty();
  const auto warn = [&](const std::string& why) {
    loaded.warnings.push_back(why + (counts ? "; the steps that the epochs take stay open" : ""));
  };
  try {
    const std::unique_ptr<data::Source> source = Look(config, *model, started, rate);
    if (source == nullptr && counts) warn("data.source: the data are not read for a plan");
    if (source == nullptr) return;
    for (const std::string& warning : DataWarnings(config, *source)) {
      loaded.warnings.push_back(warning);
    }
    try {
      CountEpochsOf(*source, *model, loaded, started);
    } catch (const UserError& error) {  // a plan's memory does not depend on epochs
      warn(error.what());
    }
  } catch (const UserError& error) {
    if (!config::MissesData(config)) throw;
    warn(fmt::format("{} (train would refuse this; planned without the data)", error.what()));
  }
}

}  // namespace plimsoll::trainer
