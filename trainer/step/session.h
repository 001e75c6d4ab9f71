// A compiled step in a device's memory: the executors of its programs, and the slots through which
// the host passes in batches and reads metrics.
//
// On a GPU a step is enqueued: Run returns at once, and the host may prepare the next step while
// the device runs this one (EndStep, TakeMetrics). Inputs are copied first, so buffers in use are
// never overwritten.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/stripe.h"
#include "base/thread_pool.h"
#include "graph/slot.h"
#include "graph/typed_elements.h"
#include "memory/allocation.h"
#include "models/huggingface.h"
#include "runtime/device.h"
#include "runtime/ranks/world.h"
#include "runtime/stored_parameter.h"
#include "trainer/step/compile.h"
#include "trainer/step/metrics.h"

namespace plimsoll::trainer {

// Slot: an input of the programs of a step or of evaluation that the host fills with data.
using graph::Slot;

// TypedElements: values to write to a parameter's elements.
using graph::TypedElements;

// The batch of a language model: ids and targets are int32 [B,T]; negative targets carry no loss.
struct BatchSlots {
  std::span<int32_t> tokens;
  std::span<int32_t> targets;
};

// The values that a step gets for one of its objectives.
struct ObjectiveStep {
  // For each update of the objective, the number of targets that carry loss in all its micro-steps.
  std::vector<int64_t> targets = {1};
  double lr = 0;
  // With UpdateOptions::skips, a step with a larger loss is skipped.
  float loss_limit = std::numeric_limits<float>::infinity();
};

// A carried tensor, from which training continues: a weight, its remainder or master copy, a
// moment, a counter. Between two steps a session holds no other state that matters.
struct StateTensor {
  std::string name;
  std::optional<graph::Owner> owner = {};
  // Checksum of the names of a history's entries (graph/tensor.h).
  std::optional<uint32_t> names_crc = {};
  // The parameter that this tensor is or belongs to; its own name if it belongs to none.
  std::string parameter;
  graph::DType dtype = graph::DType::kFloat32;
  // The shape of the full tensor, or of the part that the ranks of this tensor group have.
  graph::Shape shape;
  int64_t begin = 0;     // this rank's first element in `shape`
  int64_t elements = 0;  // this rank's number of elements
  bool divided = false;  // whether other data ranks hold the other elements
  bool split = false;    // whether it is one tensor rank's part of a split parameter
  // Whether it belongs to a parameter. If so, one stage of a pipeline has it, otherwise all stages.
  bool of_parameter = false;

  // The elements that this rank writes into a snapshot. Ranks with equal copies of a tensor each
  // write a part of it; the first of them writes all of a small tensor.
  struct Saved {
    int64_t begin = 0;  // index into the elements of `shape`
    int64_t elements = 0;
    int64_t parts = 1;  // the number of equal parts, one for each data rank
  };
  Saved saved = {};
};

class Session {
 public:
  // Allocates memory and fills it with zeros. UserError if the machine lacks the memory. `compiled`
  // must be compiled for this kind of device. `groups` are the ranks of options.communicators, for
  // communication between their hosts; `link` leads to the neighbouring stages. All belong to
  // compiled.options.mesh. The device and the link must outlive the session.
  Session(CompiledStep compiled, runtime::Device& device, runtime::ExecutorOptions options = {},
          const memory::Allocation& allocation = {}, const runtime::AxisGroups& groups = {},
          runtime::StageLink* link = nullptr);
  // A session on the CPU.
  Session(CompiledStep compiled, ThreadPool& pool, runtime::ExecutorOptions options = {});

  const CompiledStep& compiled() const { return compiled_; }
  int64_t accumulate() const { return compiled_.options.accumulate; }
  size_t objectives() const { return objectives_.size(); }
  runtime::Device& device() const { return device_; }

  // The slots that a micro-step reads, in the order of the programs; `micro_step` is its number
  // within its program. An evaluation reads the slots of micro-step 0. The host may fill slots at
  // any time; the session does not change them. Before a run they must hold the draws of data that
  // it reads (StepRun::draw).
  std::span<const Slot> slots(int64_t micro_step = 0) const { return inputs_.at(micro_step).slots; }
  // On a GPU, with CompileOptions::input_places: places in pinned memory, each with the slots of
  // one micro-step, which other threads may fill. Runs read a micro-step's data from the place that
  // ReadFrom has named last; after kSlots, from slots() above. A place may be filled again once its
  // last run is enqueued and AwaitPlace has returned; any thread may call AwaitPlace.
  static constexpr int kSlots = -1;
  int input_places() const { return static_cast<int>(place_slots_.size()); }
  std::span<const Slot> place_slots(int place) const { return place_slots_.at(place); }
  void ReadFrom(int64_t micro_step, int place);
  void AwaitPlace(int place) { input_memory_->Await(place); }
  const Slot* FindSlot(std::string_view name) const;  // nullptr if no program reads it
  const Slot& slot(std::string_view name) const;      // InternalError if no program reads it
  // The slots of a language model; empty for other models.
  const BatchSlots& batch(int64_t micro_step = 0) const { return inputs_.at(micro_step).batch; }

  // Sets every parameter from its initializer, and the states that are derived from parameters. The
  // values depend on seed and names alone. Other states already have their initial values; moments
  // and counters are zero. All ranks call this.
  void Initialize(const models::Model& model, uint64_t seed);
  void Initialize(const models::ParameterInfo& parameter, uint64_t seed);
  // Loads weights from a folder. With adapters the folder holds their base model: parameters in
  // Lora::saved are skipped, since the adapter holds them. Tensors of other shapes are adapted
  // (models::Misfits::kFitted).
  void LoadWeights(const models::Model& model, const std::string& folder);
  // Like LoadWeights, but loads everything in the folder, and parameters that the model can
  // initialize (models::Misfits) may be missing. Returns the names of the missing ones, which are
  // filled as by Initialize. All ranks call this.
  std::vector<std::string> StartFrom(const models::Model& model, const std::string& folder,
                                     uint64_t seed);
  // Saves all weights to a folder. All ranks call this; the first rank writes.
  void SaveWeights(const models::Model& model, const std::string& folder);
  // An unsharded parameter in float32, as in a run directory or a checkpoint, whatever type the
  // arena holds. All ranks must read the same parameters in the same order.
  std::vector<float> ReadParameter(std::string_view name);
  void WriteParameter(std::string_view name, std::span<const float> values);
  // Writes elements of the unsharded parameter, beginning with element `first`, row-major, in any
  // float type. If ranks share the parameter, this rank stores its own elements only. Threads may
  // call this at the same time for different elements. Returns when `values` may be reused; but
  // values in memory of Staging() must stay valid until AwaitWrites() returns, because a GPU reads
  // them directly.
  void WriteElements(std::string_view name, int64_t first, const TypedElements& values);
  // See Device::Staging and Device::AwaitStores.
  std::span<std::byte> Staging(int64_t bytes) { return device_.Staging(bytes); }
  void AwaitWrites() { device_.AwaitStores(); }

  // Access to a carried tensor by name: "block.0.attn.qkv.weight", "update_count". It has no
  // elements if no program uses it. Call these between micro-steps; reading waits for micro-steps
  // that run.
  int64_t Elements(std::string_view name) const;
  bool Carries(std::string_view name) const { return Find(name).exists; }
  graph::Shape ShapeOf(std::string_view name) const { return Find(name).type.shape; }
  template <typename T>
  std::vector<T> Read(std::string_view name) {
    std::vector<T> values(static_cast<size_t>(Elements(name)));
    if (!values.empty()) Get(RequireBytes(name, values.size() * sizeof(T)), values.data());
    return values;
  }
  template <typename T>
  void Write(std::string_view name, std::span<const T> values) {
    Put(RequireBytes(name, values.size_bytes()), values.data());
  }

  // The training state, in an order that depends on the model and the optimizer alone. ReadState
  // and WriteState access a tensor's bytes as the arena holds them; `at` and the size are multiples
  // of the element size.
  std::vector<StateTensor> State() const;
  void ReadState(const StateTensor& tensor, int64_t at, std::span<std::byte> bytes) const;
  // Like WriteElements for `bytes` in memory of Staging().
  void WriteState(const StateTensor& tensor, int64_t at, std::span<const std::byte> bytes);

  // With CompileOptions::snapshot_copy. CopyState(), between two steps, copies the state that this
  // rank saves while later steps run. AwaitCopy() returns when the copy is complete. Copied() is
  // the copy of StateTensor::saved, valid until the next call of CopyState(). Another thread may
  // call AwaitCopy and Copied.
  bool copies_state() const { return compiled_.step.snapshot >= 0; }
  void CopyState();
  void AwaitCopy() const;
  std::span<const std::byte> Copied(const StateTensor& tensor) const;

  // A step is one call of BeginStep, and a call of Run for each of compiled().step.runs(), after
  // the slots of its micro-steps are filled. A loss is the mean over `targets`.
  void BeginStep(std::span<const ObjectiveStep> objectives, uint64_t seed);
  void Run(int64_t step, int64_t run);
  // BeginStep for a model with one objective.
  void BeginStep(int64_t tokens, double lr, uint64_t seed,
                 float loss_limit = std::numeric_limits<float>::infinity()) {
    only_.targets.assign(1, tokens);
    only_.lr = lr;
    only_.loss_limit = loss_limit;
    BeginStep({&only_, 1}, seed);
  }
  // The metrics that a step and an evaluation report, ordered by objective.
  std::span<const MetricInfo> metrics() const { return compiled_.metrics; }
  // The metrics of the last step. Waits for its end.
  StepMetrics Metrics(size_t objective = 0);

  // The metrics for a host that runs ahead. Call EndStep() after each step, and TakeMetrics() once
  // for each step, in order, at most device().steps_ahead() steps later. TakeMetrics returns one
  // StepMetrics per objective, valid until the next call.
  void EndStep();
  std::span<const StepMetrics> TakeMetrics();
  // The device's time for the step whose metrics were taken last, from the end of the step before.
  // No value for the first step, or if the device measures no time.
  std::optional<double> seconds_of_taken() const { return seconds_of_taken_; }

  // Evaluates the data in the slots, and returns the evaluated metrics of each objective
  // (MetricInfo). `targets`, for each objective, and `samples` count all batches and ranks
  // together. A loss is the slots' share of the mean over them; StepMetrics::AddBatch adds up these
  // shares to the mean. The result is valid until the next call.
  std::span<const StepMetrics> Evaluate(std::span<const int64_t> targets, int64_t samples);
  // Runs the evaluation of one objective, for the tensors that it computes in addition to metrics
  // (kMadeImages). It reads the slots of its own program.
  void RunEvaluation(size_t objective);
  // Returns the loss of the only objective, which weighs no samples.
  double Evaluate(int64_t targets) { return Evaluate({&targets, 1}, 1).front().loss; }

  runtime::DeviceMemory& memory() const { return *memory_; }

  // Gathers the weights that an update has left sharded. Call it on all ranks, before a program
  // other than a micro-step reads them.
  void GatherWeights();

  // For averaged weights (optimizer.ema). ExchangeAverages swaps weights and their averages, on all
  // ranks, between two steps: until they are swapped back, readers of weights read averages. Swap
  // back before the next step or snapshot. HasAverages() is false until the first applied update.
  bool averages() const { return compiled_.step.exchange >= 0; }
  bool HasAverages();
  void ExchangeAverages();

  // Bytes of the arena that programs have used so far; requires check_arena.
  int64_t used_bytes() const;
  runtime::Executor& executor(int program) { return *executors_[program]; }

 private:
  // The memory of a tensor that the host may access.
  struct Where {
    bool exists = false;  // a program uses it
    graph::TensorType type;
    std::span<std::byte> bytes;  // memory at the device's addresses
  };

  Session(CompiledStep compiled, std::unique_ptr<runtime::Device> owned, runtime::Device* device,
          const runtime::ExecutorOptions& options, const memory::Allocation& allocation,
          const runtime::AxisGroups& groups, runtime::StageLink* link);
  void StartSingularStates(const models::SingularStates& states);
  void MakeSlots();
  void MakeInputs();
  std::vector<models::ParameterInfo> Load(const models::Model& model, const std::string& folder,
                                          models::Misfits misfits,
                                          std::set<std::string> left_out = {});
  Where Find(std::string_view name) const;
  Where Require(std::string_view name) const;  // InternalError if no program carries it
  // InternalError unless a program carries the tensor with that number of bytes.
  Where RequireBytes(std::string_view name, size_t bytes) const;
  // The tensor that `name` owns in the role `as`; it may not exist.
  Where FindOwned(std::string_view name, graph::OwnedAs as) const;
  void Put(const Where& slot, const void* from);
  void Get(const Where& slot, void* to) const;
  void MakeInputPlaces();
  void HandIn(int64_t step, const StepRun& what);  // fills the inputs of a run
  // `step`: the program belongs to the step. Otherwise it is an evaluation, which reads slots().
  void PutData(int program, bool step);
  // Sets up a pipeline stage (session_stages.cc).
  void MakeStage();
  void AddUnreadSlots();
  // Before a run: receives its tensor from a neighbour. After it: sends its tensor to a neighbour.
  void Receive(const StepRun& what);
  void Send(const StepRun& what);
  StepRun EvaluationOfStage() const;
  bool has_stages() const { return !of_stage_.empty(); }
  // How tensor-parallel ranks split a parameter; nullptr: each rank has all of it.
  const models::SplitParameter* FindSplit(std::string_view name) const;
  // This tensor rank's part of a split parameter, in float32.
  std::vector<float> ReadPart(std::string_view name);
  // FindDivided: the unsharded shape of a parameter that data ranks shard; nullptr: not sharded.
  // ReadDivided: its values, gathered from all data ranks.
  const graph::Shape* FindDivided(std::string_view name) const;
  std::vector<float> ReadDivided(std::string_view name);
  // This data rank's part of a tensor. `where` is that part, or the unsharded tensor of shape
  // `whole`.
  Where OwnPart(Where where, const graph::Shape& whole) const;
  // Gathers the parts of all ranks along the axis. `what`: the purpose, for the error if ranks are
  // missing.
  std::vector<std::string> GatherParts(std::string_view axis, std::span<const float> part,
                                       std::string_view what) const;
  StateTensor::Saved SavedOf(const StateTensor& tensor) const;
  Where FindState(const StateTensor& tensor, int64_t at, size_t bytes) const;
  bool IsShared(std::string_view name) const {
    return FindSplit(name) || FindDivided(name) || has_stages();
  }
  std::vector<float> ReadOfStage(std::string_view name);  // an unsharded parameter of this stage
  std::string Announce(std::string name);  // broadcasts the first rank's `name` to every rank
  void ServeWeights();                     // sends parameters to the rank that writes them
  // This rank's elements of an unsharded parameter, in ascending order.
  std::vector<models::ElementRange> Owned(const std::string& name) const;
  // The memory of a parameter that the arena holds unsharded as float32; otherwise empty.
  std::span<float> InPlace(std::string_view name) const;
  // The parameter as the arena stores it.
  runtime::StoredParameter StoredOf(std::string_view name) const;
  bool direct() const { return device_.kind() == runtime::DeviceKind::kCpu; }
  // Copies a parameter, or its part `weight`, to the host and returns its float32 values.
  std::vector<float> ReadStaged(std::string_view name, const Where& weight) const;
  int64_t WholeElements(std::string_view name) const;
  // Calls body(stored, stripe) for the pieces of this rank's part of a parameter: element i of
  // `stored` is element stripe.Number(i) of the unsharded parameter.
  void ForStored(std::string_view name,
                 FunctionRef<void(const runtime::StoredParameter&, const Stripe&)> body) const;
  // `all`: also parses the metrics that only evaluations have; a step does not read them.
  void ParseMetrics(const std::byte* bytes, std::span<StepMetrics> metrics, bool all) const;
  // Reads the metrics of the last run, including those that only evaluations have.
  std::span<const StepMetrics> ReadMetrics();

  CompiledStep compiled_;
  // Owned tensors' names, by owner.
  std::map<std::pair<std::string, graph::OwnedAs>, std::string> owned_;
  std::unique_ptr<runtime::Device> owned_device_;
  runtime::Device& device_;
  std::unique_ptr<runtime::DeviceMemory> memory_;
  std::vector<std::unique_ptr<runtime::Executor>> executors_;

  struct DeclaredMetric {
    Where sum, count;
    bool in_steps = true;
  };

  // Tensors that a step uses are looked up once, before the first step.
  struct Draw {  // a slot of parallel::RngSlots()
    Where slot;
    parallel::DrawNumbers numbers;
  };
  // The inputs of one of a program's micro-steps (graph/micro_steps.h).
  struct MicroStepInputs {
    std::vector<Draw> draws;
    std::vector<Slot> slots;
    std::vector<Where> places;  // the slots' memory
    BatchSlots batch;
    // The slots' buffers, if the host cannot access the slots.
    std::vector<std::vector<std::byte>> staged;
    // The place from which the step's runs read, or kSlots.
    int place = kSlots;
    std::vector<char> there;                   // whether the device has the place's data, by slot
    std::vector<std::vector<size_t>> read_by;  // indices of slots that a program reads, by program
  };
  // Inputs of each micro-step, by its number within its program.
  std::vector<MicroStepInputs> inputs_;
  std::unique_ptr<runtime::InputMemory> input_memory_;  // nullptr without places
  std::vector<std::vector<Slot>> place_slots_;          // slots of each place
  struct ObjectiveTensors {
    Where token_weight, sample_weight, lr, loss_limit;
    Where loss, grad_norm, loss_scale, skipped, codes;
    std::vector<DeclaredMetric> declared;
    std::vector<float> token_weights;  // the step's weights, by update
  };
  std::vector<ObjectiveTensors> objectives_;
  // The tensors that a slot of a stage receives from neighbours and sends to them.
  struct StageTensors {
    Where in, out, in_grad, out_grad;
  };
  ObjectiveStep only_;       // a member, so that a step allocates no memory
  int64_t micro_steps_ = 0;  // the number in a step
  // 1 / (the samples of all data ranks in an update).
  float update_sample_weight_ = 1;
  int32_t seed_ = 0;  // the step's seed
  MeshPosition position_;
  runtime::AxisGroups groups_;
  runtime::StageLink* link_;            // nullptr if the programs run the complete model
  std::vector<StageTensors> of_stage_;  // tensors for each slot
  std::atomic<bool> in_parts_ = false;  // whether the last update has left weights sharded

  // Metrics in flight: one entry for each step that the host may run ahead, one for the step before
  // those, and one for Metrics().
  struct Pending {
    std::unique_ptr<runtime::Readback> readback;  // nullptr on a GPU if no program has a loss
    std::vector<StepMetrics> metrics;
  };
  std::vector<Pending> pending_;
  size_t ended_ = 0, taken_ = 0;
  std::optional<double> seconds_of_taken_;
};

}  // namespace plimsoll::trainer
