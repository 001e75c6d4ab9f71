// A compiled step in a device's memory: the executors of its programs, and the slots through which
// the host passes batches in and reads metrics. A slot is the memory of one program input.
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

// Slot: an input of a step's or an evaluation's programs that the host fills with data.
using graph::Slot;

// TypedElements: values to write to a parameter's elements.
using graph::TypedElements;

// The batch of a language model: ids and targets are int32 [B,T]. Negative targets do not count in
// the loss.
struct BatchSlots {
  std::span<int32_t> tokens;
  std::span<int32_t> targets;
};

// The values that a step gets for one of its objectives.
struct ObjectiveStep {
  // For each update of the objective, the number of targets that count in the loss, over all its
  // micro-steps.
  std::vector<int64_t> targets = {1};
  double lr = 0;
  // With UpdateOptions::skips, a step whose loss exceeds this limit is skipped.
  float loss_limit = std::numeric_limits<float>::infinity();
};

// A carried tensor, which keeps its value from step to step: a weight, a weight's remainder or
// master copy, a moment, a counter. Between two steps a session holds no other state that matters.
struct StateTensor {
  std::string name;
  std::optional<graph::Owner> owner = {};
  // Checksum of the names of a history's entries (graph/tensor.h).
  std::optional<uint32_t> names_crc = {};
  // The parameter that this tensor is or belongs to; the tensor's own name if it belongs to no
  // parameter.
  std::string parameter;
  graph::DType dtype = graph::DType::kFloat32;
  // The shape of the full tensor, or of the shard that this tensor rank holds.
  graph::Shape shape;
  int64_t begin = 0;     // index of this rank's first element in the full `shape`
  int64_t elements = 0;  // number of elements that this rank holds
  bool divided = false;  // whether other data ranks hold the other elements
  bool split = false;    // whether the tensor is one tensor rank's shard of a split parameter
  // Whether the tensor belongs to a parameter. Then one pipeline stage has it; otherwise all stages
  // do.
  bool of_parameter = false;

  // The elements that this rank writes into a snapshot. Ranks with equal copies of a tensor each
  // write a part of the tensor; the first of these ranks writes all of a small tensor.
  struct Saved {
    int64_t begin = 0;  // index into the elements of `shape`
    int64_t elements = 0;
    int64_t parts = 1;  // the number of equal parts, one for each data rank
  };
  Saved saved = {};
};

class Session {
 public:
  // Allocates memory and fills it with zeros. Throws a UserError if the machine lacks the memory.
  // `compiled` must be compiled for this kind of device. `groups` are the ranks of
  // options.communicators, for communication between their hosts. `link` leads to the neighbouring
  // stages. All arguments belong to compiled.options.mesh. The device and the link must outlive the
  // session.
  Session(CompiledStep compiled, runtime::Device& device, runtime::ExecutorOptions options = {},
          const memory::Allocation& allocation = {}, const runtime::AxisGroups& groups = {},
          runtime::StageLink* link = nullptr);
  // A session on the CPU.
  Session(CompiledStep compiled, ThreadPool& pool, runtime::ExecutorOptions options = {});

  const CompiledStep& compiled() const { return compiled_; }
  int64_t accumulate() const { return compiled_.options.accumulate; }
  size_t objectives() const { return objectives_.size(); }
  runtime::Device& device() const { return device_; }

  // The slots that a micro-step reads, in the order of the programs. `micro_step` counts within its
  // program; an evaluation reads the slots of micro-step 0. The host may fill slots at any time;
  // the session does not change them. Before a run the slots must hold the data that the run reads
  // (StepRun::draw).
  std::span<const Slot> slots(int64_t micro_step = 0) const { return inputs_.at(micro_step).slots; }
  // On a GPU, with CompileOptions::input_places: places, buffers in pinned memory. A place has the
  // slots of one micro-step, and other threads may fill it. A run reads a micro-step's data from
  // the place in the last call of ReadFrom; kSlots means slots() above. A place may be filled again
  // once its last run is enqueued and AwaitPlace has returned. Any thread may call AwaitPlace.
  static constexpr int kSlots = -1;
  int input_places() const { return static_cast<int>(place_slots_.size()); }
  std::span<const Slot> place_slots(int place) const { return place_slots_.at(place); }
  void ReadFrom(int64_t micro_step, int place);
  void AwaitPlace(int place) { input_memory_->Await(place); }
  const Slot* FindSlot(std::string_view name) const;  // nullptr if no program reads the input
  const Slot& slot(std::string_view name) const;      // InternalError if no program reads the input
  // The slots of a language model; empty for other models.
  const BatchSlots& batch(int64_t micro_step = 0) const { return inputs_.at(micro_step).batch; }

  // Sets every parameter from its initializer, and then the states that are derived from
  // parameters. The values depend on the seed and the names alone. Other states already have their
  // initial values; moments and counters are zero. All ranks call this.
  void Initialize(const models::Model& model, uint64_t seed);
  void Initialize(const models::ParameterInfo& parameter, uint64_t seed);
  // Loads weights from a folder. With adapters the folder holds their base model, and parameters in
  // Lora::saved are skipped, since the adapter holds these. Tensors whose shape differs from the
  // model's are adapted (models::Misfits::kFitted).
  void LoadWeights(const models::Model& model, const std::string& folder);
  // Like LoadWeights, but also loads the parameters in Lora::saved. Parameters that the model can
  // initialize (models::Misfits) may be missing: they are filled as by Initialize, and their names
  // are returned. All ranks call this.
  std::vector<std::string> StartFrom(const models::Model& model, const std::string& folder,
                                     uint64_t seed);
  // Saves all weights to a folder. All ranks call this; the first rank writes.
  void SaveWeights(const models::Model& model, const std::string& folder);
  // An unsharded parameter in float32, as in a run directory or a checkpoint, whatever type the
  // arena uses. All ranks must read the same parameters in the same order.
  std::vector<float> ReadParameter(std::string_view name);
  void WriteParameter(std::string_view name, std::span<const float> values);
  // Writes elements of the unsharded parameter, in any float type, in row-major order from element
  // `first` on. If ranks share the parameter, this rank stores only its own elements. Threads may
  // call this at the same time for different elements. When the call returns, `values` may be
  // reused, except memory of Staging(): a GPU reads that memory directly, so it must stay valid
  // until AwaitWrites() returns.
  void WriteElements(std::string_view name, int64_t first, const TypedElements& values);
  // See Device::Staging and Device::AwaitStores.
  std::span<std::byte> Staging(int64_t bytes) { return device_.Staging(bytes); }
  void AwaitWrites() { device_.AwaitStores(); }

  // Access to a carried tensor by name: "block.0.attn.qkv.weight", "update_count". A tensor that no
  // program uses has 0 elements. Call these functions between micro-steps; reading waits for
  // running micro-steps.
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
  // Like WriteElements, for `bytes` in memory of Staging().
  void WriteState(const StateTensor& tensor, int64_t at, std::span<const std::byte> bytes);

  // With CompileOptions::snapshot_copy: CopyState(), called between two steps, copies the state
  // that this rank saves while later steps run. AwaitCopy() returns when the copy is complete.
  // Copied() returns the copy of StateTensor::saved, valid until the next call of CopyState().
  // Another thread may call AwaitCopy and Copied.
  bool copies_state() const { return compiled_.step.snapshot >= 0; }
  void CopyState();
  void AwaitCopy() const;
  std::span<const std::byte> Copied(const StateTensor& tensor) const;

  // A step is one call of BeginStep, followed by a call of Run for each of compiled().step.runs().
  // Fill the slots of a run's micro-steps before its Run. A loss is the mean over `targets`.
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

  // The metrics for a host that enqueues steps ahead of the device. Call EndStep() after each step,
  // and TakeMetrics() once for each step, in order, at most device().steps_ahead() steps later.
  // TakeMetrics returns one StepMetrics per objective, valid until the next call.
  void EndStep();
  std::span<const StepMetrics> TakeMetrics();
  // The device's time for the step whose metrics were taken last, counted from the end of the step
  // before it. nullopt for the first step, or if the device measures no time.
  std::optional<double> seconds_of_taken() const { return seconds_of_taken_; }

  // Evaluates the data in the slots, and returns the evaluated metrics of each objective
  // (MetricInfo). `targets`, for each objective, and `samples` count all batches on all ranks. A
  // returned loss is this batch's contribution to the mean over all batches; StepMetrics::AddBatch
  // adds these contributions. The result is valid until the next call.
  std::span<const StepMetrics> Evaluate(std::span<const int64_t> targets, int64_t samples);
  // Runs the evaluation program of one objective, for tensors that the program computes in addition
  // to metrics (kMadeImages). Reads the slots of that program.
  void RunEvaluation(size_t objective);
  // Returns the loss of a model with one objective, without sample weights.
  double Evaluate(int64_t targets) { return Evaluate({&targets, 1}, 1).front().loss; }

  runtime::DeviceMemory& memory() const { return *memory_; }

  // Gathers the weights that an update has left sharded. Call this on all ranks before a program
  // other than a micro-step reads weights.
  void GatherWeights();

  // For averaged weights (optimizer.ema). ExchangeAverages swaps weights and their averages, on all
  // ranks, between two steps. After the swap, code that reads weights reads averages. Swap back
  // before the next step or snapshot. HasAverages() is false until the first applied update.
  bool averages() const { return compiled_.step.exchange >= 0; }
  bool HasAverages();
  void ExchangeAverages();

  // Bytes of the arena that programs have used so far; requires check_arena.
  int64_t used_bytes() const;
  runtime::Executor& executor(int program) { return *executors_[program]; }

 private:
  // The memory of a tensor that the host may access.
  struct Where {
    bool exists = false;  // whether a program uses the tensor
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
  Where Require(std::string_view name) const;  // InternalError if no program carries the tensor
  // Throws an InternalError unless a program carries the tensor with that number of bytes.
  Where RequireBytes(std::string_view name, size_t bytes) const;
  // The tensor that `name` owns in the role `as`, if it exists (Where::exists).
  Where FindOwned(std::string_view name, graph::OwnedAs as) const;
  void Put(const Where& slot, const void* from);
  void Get(const Where& slot, void* to) const;
  void MakeInputPlaces();
  void HandIn(int64_t step, const StepRun& what);  // fills the inputs of a run
  // `step`: whether the program belongs to the step. Otherwise the program is an evaluation, which
  // reads slots().
  void PutData(int program, bool step);
  // Sets up a pipeline stage (session_stages.cc).
  void MakeStage();
  void AddUnreadSlots();
  // Receive: before a run, receives the run's input tensor from a neighbouring stage. Send: after
  // the run, sends its output tensor to a neighbouring stage.
  void Receive(const StepRun& what);
  void Send(const StepRun& what);
  StepRun EvaluationOfStage() const;
  bool has_stages() const { return !of_stage_.empty(); }
  // How tensor-parallel ranks split a parameter. nullptr means that each rank has the full
  // parameter.
  const models::SplitParameter* FindSplit(std::string_view name) const;
  // This tensor rank's shard of a split parameter, in float32.
  std::vector<float> ReadPart(std::string_view name);
  // FindDivided: the unsharded shape of a parameter that data ranks shard; nullptr means not
  // sharded. ReadDivided: the parameter's values, gathered from all data ranks.
  const graph::Shape* FindDivided(std::string_view name) const;
  std::vector<float> ReadDivided(std::string_view name);
  // This data rank's shard of a tensor. `where` is that shard, or the unsharded tensor of shape
  // `whole`.
  Where OwnPart(Where where, const graph::Shape& whole) const;
  // Gathers the shards of all ranks along the axis. `what` is the purpose, for the error message if
  // ranks are missing.
  std::vector<std::string> GatherParts(std::string_view axis, std::span<const float> part,
                                       std::string_view what) const;
  StateTensor::Saved SavedOf(const StateTensor& tensor) const;
  Where FindState(const StateTensor& tensor, int64_t at, size_t bytes) const;
  bool IsShared(std::string_view name) const {
    return FindSplit(name) || FindDivided(name) || has_stages();
  }
  std::vector<float> ReadOfStage(std::string_view name);  // an unsharded parameter of this stage
  std::string Announce(std::string name);  // broadcasts the first rank's `name` to every rank
  void ServeWeights();                     // sends parameters to the rank that writes the file
  // This rank's elements of an unsharded parameter, in ascending order.
  std::vector<models::ElementRange> Owned(const std::string& name) const;
  // The memory of a parameter that the arena holds unsharded as float32; empty for other
  // parameters.
  std::span<float> InPlace(std::string_view name) const;
  // The parameter as the arena stores it.
  runtime::StoredParameter StoredOf(std::string_view name) const;
  bool direct() const { return device_.kind() == runtime::DeviceKind::kCpu; }
  // Copies a parameter, or its shard `weight`, to the host and returns the float32 values.
  std::vector<float> ReadStaged(std::string_view name, const Where& weight) const;
  int64_t WholeElements(std::string_view name) const;
  // Calls body(stored, stripe) for each contiguous stripe of this rank's shard of a parameter:
  // element i of `stored` is element stripe.Number(i) of the unsharded parameter.
  void ForStored(std::string_view name,
                 FunctionRef<void(const runtime::StoredParameter&, const Stripe&)> body) const;
  // `all`: whether to parse also the metrics that only evaluations have. A step passes false.
  void ParseMetrics(const std::byte* bytes, std::span<StepMetrics> metrics, bool all) const;
  // Reads the metrics of the last run, including those that only evaluations have.
  std::span<const StepMetrics> ReadMetrics();

  CompiledStep compiled_;
  // Maps an owner's name and a role to the name of the owned tensor.
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
  // The inputs of one micro-step of a program (graph/micro_steps.h).
  struct MicroStepInputs {
    std::vector<Draw> draws;
    std::vector<Slot> slots;
    std::vector<Where> places;  // the memory of each slot
    BatchSlots batch;
    // The host's buffer for each slot, if the host cannot access the slots.
    std::vector<std::vector<std::byte>> staged;
    // The input place (a buffer in pinned memory) from which the step's runs read this micro-step's
    // data; kSlots if they read it from `slots`.
    int place = kSlots;
    std::vector<char> there;  // for each slot, whether the device has the place's data
    // For each program, indices of the slots that it reads.
    std::vector<std::vector<size_t>> read_by;
  };
  // Inputs of each micro-step, indexed by the micro-step's number within its program.
  std::vector<MicroStepInputs> inputs_;
  std::unique_ptr<runtime::InputMemory> input_memory_;  // nullptr without input places
  std::vector<std::vector<Slot>> place_slots_;          // for each input place, its slots
  struct ObjectiveTensors {
    Where token_weight, sample_weight, lr, loss_limit;
    Where loss, grad_norm, loss_scale, skipped, codes;
    std::vector<DeclaredMetric> declared;
    std::vector<float> token_weights;  // for each update of the step, the weight of a token
  };
  std::vector<ObjectiveTensors> objectives_;
  // The tensors that a pipeline stage receives from neighbours and sends to neighbours, for one
  // slot.
  struct StageTensors {
    Where in, out, in_grad, out_grad;
  };
  ObjectiveStep only_;       // a member, so that a step allocates no memory
  int64_t micro_steps_ = 0;  // the number of micro-steps in a step
  // 1 / (the samples of all data ranks in an update).
  float update_sample_weight_ = 1;
  int32_t seed_ = 0;  // the random seed of the step
  MeshPosition position_;
  runtime::AxisGroups groups_;
  runtime::StageLink* link_;            // nullptr if the programs run the complete model
  std::vector<StageTensors> of_stage_;  // for each slot, its tensors
  std::atomic<bool> in_parts_ = false;  // whether the last update has left weights sharded

  // Metrics in flight: one entry for each step that the host may enqueue ahead, one for the step
  // before those steps, and one for Metrics().
  struct Pending {
    std::unique_ptr<runtime::Readback> readback;  // nullptr on a GPU if no program has a loss
    std::vector<StepMetrics> metrics;
  };
  std::vector<Pending> pending_;
  size_t ended_ = 0, taken_ = 0;
  std::optional<double> seconds_of_taken_;
};

}  // namespace plimsoll::trainer
