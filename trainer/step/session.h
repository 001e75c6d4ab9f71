// A compiled step in a device's memory: the executors bound to it, and the slots through which the
// host hands in batches and takes out metrics.
//
// On a GPU a step is enqueued: Run returns at once, and the host may go on with the next
// step while the device works on this one (EndStep, TakeMetrics). What is handed in is copied
// first, so nothing that is in use is ever overwritten.
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

// Inputs of the programs of a step or of evaluation that the host fills with data.
using graph::Slot;

// What a parameter's elements can be written from.
using graph::TypedElements;

// Those of a language model: ids and targets are int32 [B,T]; negative targets carry no loss.
struct BatchSlots {
  std::span<int32_t> tokens;
  std::span<int32_t> targets;
};

// What a step is told about one of its objectives.
struct ObjectiveStep {
  // For each of its updates, the targets that carry loss in all its micro-steps.
  std::vector<int64_t> targets = {1};
  double lr = 0;
  // With UpdateOptions::skips a step with a loss beyond it is skipped.
  float loss_limit = std::numeric_limits<float>::infinity();
};

// A carried tensor that training goes on from: a weight, what makes it a float32 one, a moment, a
// counter. Between two steps a session holds nothing else that matters.
struct StateTensor {
  std::string name;
  std::optional<graph::Owner> owner = {};
  std::optional<uint32_t> names_crc = {};  // of a history (graph/tensor.h)
  std::string parameter;  // that it is, or belongs to; its own name when it belongs to none
  graph::DType dtype = graph::DType::kFloat32;
  graph::Shape shape;    // of the whole, or of the part that the ranks of this tensor group have
  int64_t begin = 0;     // this rank's elements of that
  int64_t elements = 0;  // as many
  bool divided = false;  // are the others on other data ranks?
  bool split = false;    // is it a part that tensor ranks share?
  bool of_parameter = false;  // then one stage of a pipeline has it; all have what belongs to none

  // What this rank writes into a snapshot: what several have alike, each of them does a part of,
  // or, of small tensors, the first does all.
  struct Saved {
    int64_t begin = 0;  // of the elements of `shape`
    int64_t elements = 0;
    int64_t parts = 1;  // equal ones, one for each data rank
  };
  Saved saved = {};
};

class Session {
 public:
  // Allocates memory; its bytes are zero. UserError when the machine lacks it. `compiled` was
  // compiled for this kind of device, which must outlive the session.
  // `groups` are the ranks of options.communicators, for talk between their hosts, and `link` leads
  // to the neighbouring stages; all are of compiled.options.mesh. The link outlives the session.
  Session(CompiledStep compiled, runtime::Device& device, runtime::ExecutorOptions options = {},
          const memory::Allocation& allocation = {}, const runtime::AxisGroups& groups = {},
          runtime::StageLink* link = nullptr);
  // On the CPU.
  Session(CompiledStep compiled, ThreadPool& pool, runtime::ExecutorOptions options = {});

  const CompiledStep& compiled() const { return compiled_; }
  int64_t accumulate() const { return compiled_.options.accumulate; }
  size_t objectives() const { return objectives_.size(); }
  runtime::Device& device() const { return device_; }

  // The slots that a micro-step reads, in the order of the programs, given its number in its
  // program; an evaluation reads the first one's. They are free to be filled at any time, and left
  // as they are. Before a run they have to hold the draws of data that it reads (StepRun::draw).
  std::span<const Slot> slots(int64_t micro_step = 0) const { return inputs_.at(micro_step).slots; }
  // On a GPU, with CompileOptions::input_places: places in pinned memory, each with these slots for
  // one micro-step, which other threads may fill. Runs read a micro-step's data from the place that
  // ReadFrom names, until it names another; with kSlots, from slots() above. A place may be filled
  // anew when its last run has been handed in and AwaitPlace, which any thread may call, returns.
  static constexpr int kSlots = -1;
  int input_places() const { return static_cast<int>(place_slots_.size()); }
  std::span<const Slot> place_slots(int place) const { return place_slots_.at(place); }
  void ReadFrom(int64_t micro_step, int place);
  void AwaitPlace(int place) { input_memory_->Await(place); }
  const Slot* FindSlot(std::string_view name) const;  // nullptr: no program reads it
  const Slot& slot(std::string_view name) const;      // then an InternalError
  // Of a language model; of others these are empty.
  const BatchSlots& batch(int64_t micro_step = 0) const { return inputs_.at(micro_step).batch; }

  // Fills every parameter from its initializer, and the states that follow from parameters. The
  // numbers depend on seed and names alone. Other states have their initial values already; moments
  // and counters are zero. All ranks call.
  void Initialize(const models::Model& model, uint64_t seed);
  void Initialize(const models::ParameterInfo& parameter, uint64_t seed);
  // With adapters the folder is their base: what Lora::saved names is left out, since the adapter
  // holds it, and what follows from tensors of other shapes (models::Misfits::kFitted) is made.
  void LoadWeights(const models::Model& model, const std::string& folder);
  // As LoadWeights, but with all that the folder has; parameters that the model can initialise
  // afresh (models::Misfits) need not be there. Returns the names of those that weren't, which are
  // filled as by Initialize. All ranks call.
  std::vector<std::string> StartFrom(const models::Model& model, const std::string& folder,
                                     uint64_t seed);
  // All ranks call; the first of them writes.
  void SaveWeights(const models::Model& model, const std::string& folder);
  // A whole parameter as a run directory or a checkpoint holds it: float32, whatever the arena
  // holds. All ranks read the same parameters in the same order.
  std::vector<float> ReadParameter(std::string_view name);
  void WriteParameter(std::string_view name, std::span<const float> values);
  // Elements from number `first` on of the whole parameter, row-major as a checkpoint holds it, in
  // any type of floats; of a parameter that ranks share, this rank takes what it has of them. May
  // be called by several threads at a time, for other elements. Returns when `values` may be
  // reused; but a GPU reads what lies in memory of Staging() itself, until AwaitWrites() returns.
  void WriteElements(std::string_view name, int64_t first, const TypedElements& values);
  // As Device::Staging and AwaitStores.
  std::span<std::byte> Staging(int64_t bytes) { return device_.Staging(bytes); }
  void AwaitWrites() { device_.AwaitStores(); }

  // A carried tensor: "block.0.attn.qkv.weight", "update_count". No elements when no program uses
  // such a tensor. Between micro-steps; reading waits for those that were run.
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

  // What training goes on from, in an order that follows from the model and the optimizer. Of each
  // tensor the bytes as they lie in the arena: `at` and the size are multiples of the element's.
  std::vector<StateTensor> State() const;
  void ReadState(const StateTensor& tensor, int64_t at, std::span<std::byte> bytes) const;
  // As WriteElements of `bytes` in memory of Staging().
  void WriteState(const StateTensor& tensor, int64_t at, std::span<const std::byte> bytes);

  // With CompileOptions::snapshot_copy. CopyState(), between two steps, copies what this rank saves
  // of the state, while the steps that follow go on; AwaitCopy() returns when it is done, and
  // Copied() is the copy of StateTensor::saved, until the next call of CopyState(). The last two
  // may be called on another thread.
  bool copies_state() const { return compiled_.step.snapshot >= 0; }
  void CopyState();
  void AwaitCopy() const;
  std::span<const std::byte> Copied(const StateTensor& tensor) const;

  // One step is a call of BeginStep, with what concerns each objective, and a call of Run
  // for each of compiled().step.runs(), after filling the slots of its micro-steps. A loss is the
  // mean over `tokens`.
  void BeginStep(std::span<const ObjectiveStep> objectives, uint64_t seed);
  void Run(int64_t step, int64_t run);
  // With one objective.
  void BeginStep(int64_t tokens, double lr, uint64_t seed,
                 float loss_limit = std::numeric_limits<float>::infinity()) {
    only_.targets.assign(1, tokens);
    only_.lr = lr;
    only_.loss_limit = loss_limit;
    BeginStep({&only_, 1}, seed);
  }
  // What a step and an evaluation tell, by objective.
  std::span<const MetricInfo> metrics() const { return compiled_.metrics; }
  // Of the step that ran last, once it has ended.
  StepMetrics Metrics(size_t objective = 0);

  // The same for a host that runs ahead: EndStep() after each step, and TakeMetrics() once for
  // each, in their order, at most device().steps_ahead() steps later. They are those of the
  // objectives, and stay until the next call.
  void EndStep();
  std::span<const StepMetrics> TakeMetrics();
  // The device's time from the end of the step before to the end of the step taken last. No value
  // for the first step, and where the device keeps no time.
  std::optional<double> seconds_of_taken() const { return seconds_of_taken_; }

  // Of what the slots hold, the metrics of each objective that are evaluated (MetricInfo).
  // `targets`, of each objective, and `samples` are those of all batches and ranks together: a loss
  // is the slots' share of the mean over them, and adding up over the batches gives that mean
  // (StepMetrics::AddBatch). They stay until the next call.
  std::span<const StepMetrics> Evaluate(std::span<const int64_t> targets, int64_t samples);
  // Runs the evaluation of one objective alone, for what it leaves besides metrics (kMadeImages).
  // It reads the slots of its own program.
  void RunEvaluation(size_t objective);
  // The loss of one objective that weighs no samples.
  double Evaluate(int64_t targets) { return Evaluate({&targets, 1}, 1).front().loss; }

  runtime::DeviceMemory& memory() const { return *memory_; }

  // Makes the weights whole that an update has left in parts; before a program other than a
  // micro-step reads them. On all ranks.
  void GatherWeights();

  // Where weights are averaged (optimizer.ema), exchanges them with their averages, between two
  // steps: what reads weights then reads averages, until they are exchanged back, which must be
  // before the next step or snapshot. On all ranks. HasAverages(): are there any yet? The first
  // applied update makes them.
  bool averages() const { return compiled_.step.exchange >= 0; }
  bool HasAverages();
  void ExchangeAverages();

  // Bytes of the arena that the programs run so far have used; with check_arena only.
  int64_t used_bytes() const;
  runtime::Executor& executor(int program) { return *executors_[program]; }

 private:
  // Where a tensor that the host may touch lies.
  struct Where {
    bool exists = false;  // a program uses it
    graph::TensorType type;
    std::span<std::byte> bytes;  // as the device finds them
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
  Where Require(std::string_view name) const;  // InternalError where no program carries it
  // InternalError unless a program carries it, in that number of bytes.
  Where RequireBytes(std::string_view name, size_t bytes) const;
  // What belongs to that tensor so; it may not exist.
  Where FindOwned(std::string_view name, graph::OwnedAs as) const;
  void Put(const Where& slot, const void* from);
  void Get(const Where& slot, void* to) const;
  void MakeInputPlaces();
  void HandIn(int64_t step, const StepRun& what);  // what the run reads
  // `step`: the program is the step's, not an evaluation, which reads slots().
  void PutData(int program, bool step);
  // Of a stage (session_stages.cc).
  void MakeStage();
  void AddUnreadSlots();
  // Before and after a run: what it awaits from a neighbour and sends to one.
  void Receive(const StepRun& what);
  void Send(const StepRun& what);
  StepRun EvaluationOfStage() const;
  bool has_stages() const { return !of_stage_.empty(); }
  // How tensor-parallel ranks share a parameter; nullptr: each has all of it.
  const models::SplitParameter* FindSplit(std::string_view name) const;
  // What this rank then has of it, from what the device holds.
  std::vector<float> ReadPart(std::string_view name);
  // The same where data ranks divide it once more.
  const graph::Shape* FindDivided(std::string_view name) const;  // its shape then; nullptr: no
  std::vector<float> ReadDivided(std::string_view name);
  // This data rank's part of a tensor that may be whole here, with the shape `whole`, or that part.
  Where OwnPart(Where where, const graph::Shape& whole) const;
  // The parts of all ranks along the axis. `what` they do with the parameter, if they are missing.
  std::vector<std::string> GatherParts(std::string_view axis, std::span<const float> part,
                                       std::string_view what) const;
  StateTensor::Saved SavedOf(const StateTensor& tensor) const;
  Where FindState(const StateTensor& tensor, int64_t at, size_t bytes) const;
  bool IsShared(std::string_view name) const {
    return FindSplit(name) || FindDivided(name) || has_stages();
  }
  std::vector<float> ReadOfStage(std::string_view name);  // a whole parameter that the stage has
  std::string Announce(std::string name);  // what the first rank of all says, on every rank
  void ServeWeights();                     // to the rank that writes them
  // The elements of a whole parameter that this rank has, in ascending order.
  std::vector<models::ElementRange> Owned(const std::string& name) const;
  // Where a whole parameter lies as float32; empty when it lies nowhere as such.
  std::span<float> InPlace(std::string_view name) const;
  runtime::StoredParameter StoredOf(std::string_view name) const;  // of a parameter, as it lies
  bool direct() const { return device_.kind() == runtime::DeviceKind::kCpu; }
  // The float32 values of a parameter with this weight or this part of it, by copies in the memory
  // of the host.
  std::vector<float> ReadStaged(std::string_view name, const Where& weight) const;
  int64_t WholeElements(std::string_view name) const;
  // Calls body(stored, stripe) for pieces that make up what this rank has of a parameter: element i
  // of `stored` is element stripe.Number(i) of the whole.
  void ForStored(std::string_view name,
                 FunctionRef<void(const runtime::StoredParameter&, const Stripe&)> body) const;
  // `all`: also parses the metrics that only evaluations have; a step does not read them.
  void ParseMetrics(const std::byte* bytes, std::span<StepMetrics> metrics, bool all) const;
  // Returns the metrics of what has run, including those that only evaluations have.
  std::span<const StepMetrics> ReadMetrics();

  CompiledStep compiled_;
  std::map<std::pair<std::string, graph::OwnedAs>, std::string> owned_;  // names, by owner
  std::unique_ptr<runtime::Device> owned_device_;
  runtime::Device& device_;
  std::unique_ptr<runtime::DeviceMemory> memory_;
  std::vector<std::unique_ptr<runtime::Executor>> executors_;

  struct DeclaredMetric {
    Where sum, count;
    bool in_steps = true;
  };

  // Looked up once: a step looks nothing up.
  struct Draw {  // of parallel::RngSlots()
    Where slot;
    parallel::DrawNumbers numbers;
  };
  // What a program's micro-step has for itself (graph/micro_steps.h).
  struct MicroStepInputs {
    std::vector<Draw> draws;
    std::vector<Slot> slots;
    std::vector<Where> places;  // of the slots
    BatchSlots batch;
    std::vector<std::vector<std::byte>> staged;  // where the host cannot touch the slots
    int place = kSlots;                          // the place that runs of the step read, or kSlots
    std::vector<char> there;                     // by slot: the device has what is in the place
    std::vector<std::vector<size_t>> read_by;    // by program: the slots that it reads
  };
  std::vector<MicroStepInputs> inputs_;                 // by number in the program
  std::unique_ptr<runtime::InputMemory> input_memory_;  // nullptr: none
  std::vector<std::vector<Slot>> place_slots_;          // by place
  struct ObjectiveTensors {
    Where token_weight, sample_weight, lr, loss_limit;
    Where loss, grad_norm, loss_scale, skipped, codes;
    std::vector<DeclaredMetric> declared;
    std::vector<float> token_weights;  // of the step, by update
  };
  std::vector<ObjectiveTensors> objectives_;
  // What a slot of a stage receives from its neighbours and sends to them.
  struct StageTensors {
    Where in, out, in_grad, out_grad;
  };
  ObjectiveStep only_;       // kept, so that a step asks for no memory
  int64_t micro_steps_ = 0;  // in a step
  // 1 / samples of all data ranks in an update.
  float update_sample_weight_ = 1;
  int32_t seed_ = 0;  // of the step
  MeshPosition position_;
  runtime::AxisGroups groups_;
  runtime::StageLink* link_;            // nullptr: the programs are of the whole model
  std::vector<StageTensors> of_stage_;  // by slot
  std::atomic<bool> in_parts_ = false;  // weights, since the last update

  // Metrics on their way: one place for each step that the host may be ahead, one for the step
  // before those, one for Metrics().
  struct Pending {
    std::unique_ptr<runtime::Readback> readback;  // nullptr on a GPU where no program has a loss
    std::vector<StepMetrics> metrics;
  };
  std::vector<Pending> pending_;
  size_t ended_ = 0, taken_ = 0;
  std::optional<double> seconds_of_taken_;
};

}  // namespace plimsoll::trainer
