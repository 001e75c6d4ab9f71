#include "trainer/step/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "amp/fp8.h"
#include "base/axes.h"
#include "base/error.h"
#include "graph/micro_steps.h"
#include "graph/objective.h"
#include "trainer/step/input_places.h"

namespace plimsoll::trainer {

Session::Session(CompiledStep compiled, runtime::Device& device, runtime::ExecutorOptions options,
                 const memory::Allocation& allocation, const runtime::AxisGroups& groups,
                 runtime::StageLink* link)
    : Session(std::move(compiled), nullptr, &device, options, allocation, groups, link) {}

Session::Session(CompiledStep compiled, ThreadPool& pool, runtime::ExecutorOptions options)
    : Session(std::move(compiled), runtime::MakeCpuDevice(pool), nullptr, options, {}, {},
              nullptr) {}

Session::Session(CompiledStep compiled, std::unique_ptr<runtime::Device> owned,
                 runtime::Device* device, const runtime::ExecutorOptions& options,
                 const memory::Allocation& allocation, const runtime::AxisGroups& groups,
                 runtime::StageLink* link)
    : compiled_(std::move(compiled)),
      owned_device_(std::move(owned)),
      device_(owned_device_ ? *owned_device_ : *device),
      position_{compiled_.options.mesh, compiled_.options.rank},
      groups_(groups),
      link_(link) {
  if (device_.kind() != compiled_.options.device) {
    throw InternalError(fmt::format("a step compiled for {} cannot run on {}",
                                    Name(compiled_.options.device), Name(device_.kind())));
  }
  for (const auto& program : compiled_.programs) {
    for (const graph::Tensor& tensor : program->tensors()) {
      if (tensor.owner) owned_.try_emplace({tensor.owner->name, tensor.owner->as}, tensor.name);
    }
  }
  memory_ = allocation.allocate(compiled_.planned(), device_);
  std::vector<runtime::DeviceMemory::BoundProgram> bound;
  for (size_t i = 0; i < compiled_.programs.size(); ++i) {
    bound.push_back({.program = compiled_.programs[i].get(),
                     .layout = &compiled_.plan.programs[i].layout,
                     .concurrent = static_cast<int>(i) == compiled_.step.snapshot});
  }
  executors_ = memory_->MakeExecutors(bound, options);
  // Writes the states' initial values, because the arena's memory is zero.
  for (const models::StateInfo& state : compiled_.states) {
    const std::vector<float> values(static_cast<size_t>(Elements(state.name)), state.initial);
    Write<float>(state.name, values);
  }
  MakeSlots();
}

void Session::MakeSlots() {
  micro_steps_ = compiled_.step.micro_steps();
  const CompileOptions& options = compiled_.options;
  const auto batch = static_cast<double>(options.micro_batch * options.mesh.ranks(kDataAxis));
  update_sample_weight_ = static_cast<float>(1 / (batch * static_cast<double>(options.accumulate)));
  MakeInputs();
  const auto scale = static_cast<float>(compiled_.options.init_loss_scale);
  bool any_loss = false;
  for (const models::Objective& objective : compiled_.objectives) {
    const auto named = [&](std::string_view name) {
      return graph::OfObjective(objective.name, name);
    };
    ObjectiveTensors& tensors = objectives_.emplace_back();
    tensors.token_weight = Find(named("token_weight"));
    tensors.sample_weight = Find(named("sample_weight"));
    tensors.lr = Find(named("lr"));
    tensors.loss_limit = Find(named("loss_limit"));
    tensors.loss = Find(named("loss"));
    tensors.grad_norm = Find(named("grad_norm"));
    tensors.loss_scale = Find(named("loss_scale"));
    tensors.skipped = Find(named("skipped"));
    tensors.codes = Find(named(amp::Fp8Products::kCounts));
    Put(tensors.loss_scale, &scale);
    any_loss = any_loss || tensors.loss.exists;
  }
  pending_.resize(static_cast<size_t>(device_.steps_ahead()) + 3);
  // Allocated here, so that a step allocates no memory.
  std::vector<StepMetrics> room(objectives_.size());
  for (const MetricInfo& metric : compiled_.metrics) {
    if (!metric.declared) continue;
    const auto objective = static_cast<size_t>(metric.objective);
    const Where sum = Find(metric.name), count = Find(CountName(metric.name));
    objectives_[objective].declared.push_back({sum, count, metric.in_steps});
    MetricSum& to = room[objective].declared.emplace_back();
    to.sum.resize(static_cast<size_t>(sum.type.shape.elements()));
    if (count.exists) to.count = 0;
  }
  std::vector<std::span<const std::byte>> step_ranges, ranges;
  const auto read = [&](const Where& metric, bool in_steps = true) {
    ranges.push_back(metric.bytes);  // empty if the metric does not exist
    if (in_steps) step_ranges.push_back(metric.bytes);
  };
  for (const ObjectiveTensors& tensors : objectives_) {
    for (const Where* metric : {&tensors.loss, &tensors.grad_norm, &tensors.loss_scale,
                                &tensors.skipped, &tensors.codes}) {
      read(*metric);
    }
    for (const DeclaredMetric& metric : tensors.declared) {
      read(metric.sum, metric.in_steps);
      read(metric.count, metric.in_steps);
    }
  }
  for (Pending& pending : pending_) {
    pending.metrics = room;
    if (!direct() && !any_loss) continue;  // no metrics of this program need pinned memory
    const bool of_step = &pending != &pending_.back();
    pending.readback = memory_->MakeReadback(of_step ? step_ranges : ranges);
  }
}

void Session::MakeInputs() {
  const std::set<std::string, std::less<>> no_data = InputsWithoutData(compiled_.objectives);
  int64_t most = compiled_.options.micro_steps_per_program;
  for (int64_t run = 0; run < compiled_.step.runs(); ++run) {
    const StepRun what = compiled_.step.At(run);
    most = std::max(most, what.slot + what.all_micro_steps());
  }
  inputs_.resize(static_cast<size_t>(most));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    for (const parallel::RngSlot& slot : parallel::RngSlots()) {
      inputs_[i].draws.push_back({Find(graph::OfMicroStep(static_cast<int64_t>(i), slot.name)),
                                  parallel::DrawNumbersOf(slot, position_)});
    }
    inputs_[i].read_by.resize(compiled_.programs.size());
  }
  for (size_t p = 0; p < compiled_.programs.size(); ++p) {
    if (!compiled_.step.ReadsData(static_cast<int>(p))) continue;
    for (const graph::Tensor& tensor : compiled_.programs[p]->tensors()) {
      const auto [micro_step, name] = graph::ParseMicroStepName(tensor.name);
      if (tensor.role != graph::Role::kInput || tensor.alias || no_data.contains(name)) continue;
      const Where place = Find(tensor.name);
      if (!place.exists) continue;  // a declared tensor that no program reads
      MicroStepInputs& inputs = inputs_.at(static_cast<size_t>(micro_step));
      const auto known = std::ranges::find(inputs.slots, name, &Slot::name);
      inputs.read_by[p].push_back(static_cast<size_t>(known - inputs.slots.begin()));
      if (known != inputs.slots.end()) continue;
      inputs.slots.push_back({.name = std::string(name), .type = tensor.type, .bytes = {}});
      inputs.places.push_back(place);
    }
  }
  MakeStage();
  for (MicroStepInputs& inputs : inputs_) {
    inputs.staged.resize(inputs.slots.size());
    inputs.there.resize(inputs.slots.size(), false);
    for (size_t i = 0; i < inputs.slots.size(); ++i) {
      Slot& slot = inputs.slots[i];
      const bool in_place = direct() && inputs.places[i].exists;
      if (!in_place) inputs.staged[i].resize(static_cast<size_t>(slot.type.bytes()));
      slot.bytes = in_place ? inputs.places[i].bytes : std::span(inputs.staged[i]);
      if (slot.name == "tokens") inputs.batch.tokens = slot.values<int32_t>();
      if (slot.name == "targets") inputs.batch.targets = slot.values<int32_t>();
    }
  }
  MakeInputPlaces();
}

const Slot* Session::FindSlot(std::string_view name) const {
  const auto found = std::ranges::find(slots(), name, &Slot::name);
  return found == slots().end() ? nullptr : &*found;
}

const Slot& Session::slot(std::string_view name) const {
  const Slot* const found = FindSlot(name);
  if (found == nullptr) throw InternalError(fmt::format("no program reads '{}'", name));
  return *found;
}

Session::Where Session::Find(std::string_view name) const {
  for (size_t i = 0; i < compiled_.programs.size(); ++i) {
    const graph::Program& program = *compiled_.programs[i];
    const runtime::Layout& layout = compiled_.plan.programs[i].layout;
    const graph::TensorId id = program.Find(name);
    // A tensor that a program declares but does not use has no memory in that program.
    if (id == graph::kNoTensor || layout.offset(id) == runtime::kUnplaced) continue;
    const graph::Tensor& tensor = program.tensor(id);
    const bool visible = program.tensor(program.Root(id)).persistent ||
                         tensor.role == graph::Role::kInput || tensor.role == graph::Role::kMetric;
    if (!visible) {
      throw InternalError(fmt::format(
          "program '{}': '{}' is a temporary, which only nodes may touch", program.name(), name));
    }
    return {.exists = true,
            .type = tensor.type,
            .bytes = {executors_[i]->address(id), static_cast<size_t>(tensor.bytes())}};
  }
  return {};
}

Session::Where Session::FindOwned(std::string_view name, graph::OwnedAs as) const {
  const auto found = owned_.find({std::string(name), as});
  return found == owned_.end() ? Where() : Find(found->second);
}

int64_t Session::Elements(std::string_view name) const {
  const Where where = Find(name);
  return where.exists ? where.type.shape.elements() : 0;
}

void Session::Put(const Where& slot, const void* from) {
  if (slot.exists) memory_->Write(slot.bytes, from);
}

void Session::Get(const Where& slot, void* to) const {
  if (slot.exists) memory_->Read(slot.bytes, to);
}

// Copies the host's inputs to the device. Nothing but the host changes inputs, so programs of a
// step that read the same data need one copy.
void Session::PutData(int program, bool step) {
  if (direct()) return;  // the host fills these inputs in place
  for (MicroStepInputs& inputs : inputs_) {
    for (const size_t i : inputs.read_by[static_cast<size_t>(program)]) {
      if (!step || inputs.place == kSlots) {
        Put(inputs.places[i], inputs.staged[i].data());
        inputs.there[i] = false;
      } else if (!inputs.there[i]) {
        const auto place = static_cast<size_t>(inputs.place);
        input_memory_->Write(inputs.place, inputs.places[i].bytes,
                             place_slots_[place][i].bytes.data());
        inputs.there[i] = true;
      }
    }
  }
}

void Session::ReadFrom(int64_t micro_step, int place) {
  MicroStepInputs& inputs = inputs_.at(static_cast<size_t>(micro_step));
  if (place != kSlots &&
      !std::ranges::equal(inputs.slots, place_slots(place), {}, &Slot::name, &Slot::name)) {
    throw InternalError("a micro-step reads other data than the places for batches hold");
  }
  inputs.place = place;
  std::ranges::fill(inputs.there, false);
}

// Allocates the input places. Their size must equal the planned size.
void Session::MakeInputPlaces() {
  const auto places = static_cast<int>(compiled_.options.input_places);
  if (direct() || places == 0) return;
  std::vector<int64_t> bytes;
  for (const Slot& slot : slots()) bytes.push_back(std::ssize(slot.bytes));
  const InputPlaceLayout layout = LayOutInputs(bytes);
  if (layout.bytes != compiled_.input_place_bytes) {
    throw InternalError(fmt::format("places for batches take {} bytes each, {} were planned",
                                    layout.bytes, compiled_.input_place_bytes));
  }
  input_memory_ = memory_->MakeInputMemory(places, layout.bytes);
  if (input_memory_ == nullptr) return;
  for (int place = 0; place < places; ++place) {
    const std::span<std::byte> memory = input_memory_->place(place);
    std::vector<Slot>& own = place_slots_.emplace_back(slots().begin(), slots().end());
    for (size_t i = 0; i < own.size(); ++i) {
      own[i].bytes = memory.subspan(static_cast<size_t>(layout.offsets[i]), own[i].bytes.size());
    }
  }
}

Session::Where Session::RequireBytes(std::string_view name, size_t bytes) const {
  const Where where = Find(name);
  if (!where.exists || bytes != where.bytes.size()) {
    throw InternalError(fmt::format("'{}' has {} bytes, not {}", name, where.bytes.size(), bytes));
  }
  return where;
}

void Session::BeginStep(std::span<const ObjectiveStep> objectives, uint64_t seed) {
  if (objectives.size() != objectives_.size()) {
    throw InternalError(fmt::format("a step of {} objectives is told about {}", objectives_.size(),
                                    objectives.size()));
  }
  for (size_t i = 0; i < objectives.size(); ++i) {
    const auto rate = static_cast<float>(objectives[i].lr);
    objectives_[i].token_weights.clear();
    for (const int64_t targets : objectives[i].targets) {
      objectives_[i].token_weights.push_back(
          static_cast<float>(1.0 / static_cast<double>(targets)));
    }
    Put(objectives_[i].lr, &rate);
    Put(objectives_[i].loss_limit, &objectives[i].loss_limit);
  }
  seed_ = static_cast<int32_t>(seed ^ (seed >> 32));
}

void Session::Run(int64_t step, int64_t run) {
  const StepRun what = compiled_.step.At(run);
  if (BeginsMicroSteps(what.action)) HandIn(step, what);
  Receive(what);
  executors_[what.program]->Run();
  Send(what);
  in_parts_ = compiled_.step.gather >= 0 && what.ends;
}

void Session::HandIn(int64_t step, const StepRun& what) {
  for (int64_t i = 0; i < what.all_micro_steps(); ++i) {
    const int64_t number = step * micro_steps_ + what.number + i;
    for (const Draw& draw : inputs_[static_cast<size_t>(what.slot + i)].draws) {
      const int32_t values[2] = {
          seed_, static_cast<int32_t>(number * draw.numbers.scale + draw.numbers.offset)};
      Put(draw.slot, values);
    }
  }
  if (what.micro_step == 0) {
    for (const StepUpdate& update : what.updates) {
      const ObjectiveTensors& objective = objectives_[static_cast<size_t>(update.objective)];
      Put(objective.token_weight, &objective.token_weights.at(static_cast<size_t>(update.number)));
      Put(objective.sample_weight, &update_sample_weight_);
    }
  }
  PutData(what.program, /*step=*/true);
}

void Session::GatherWeights() {
  if (in_parts_.exchange(false)) executors_[compiled_.step.gather]->Run();
}

bool Session::HasAverages() {
  if (!averages()) return false;
  return std::ranges::all_of(compiled_.objectives, [&](const models::Objective& objective) {
    const std::vector<int32_t> updates =
        Read<int32_t>(graph::OfObjective(objective.name, optim::kAverageCount));
    return updates.empty() || updates.front() > 0;
  });
}

void Session::ExchangeAverages() {
  if (copies_state()) AwaitCopy();
  executors_[compiled_.step.exchange]->Run();
  in_parts_ = compiled_.step.gather >= 0;
}

namespace {

// Converts a metric's elements to double.
void TakeElements(const std::byte* from, graph::DType dtype, std::span<double> to) {
  for (double& value : to) {
    if (dtype == graph::DType::kInt32) {
      int32_t element;
      std::memcpy(&element, from, sizeof(element));
      value = element;
    } else {
      float element;
      std::memcpy(&element, from, sizeof(element));
      value = element;
    }
    from += graph::ByteSize(dtype);
  }
}

}  // namespace

void Session::ParseMetrics(const std::byte* bytes, std::span<StepMetrics> metrics, bool all) const {
  const auto take = [&](const Where& slot, auto* values) {
    if (slot.exists) std::memcpy(values, bytes, slot.bytes.size());
    bytes += runtime::Readback::Rounded(slot.bytes.size());
  };
  for (size_t i = 0; i < objectives_.size(); ++i) {
    float loss = 0, grad_norm = 0, loss_scale = 1;
    int32_t skipped[2] = {0, 0};
    take(objectives_[i].loss, &loss);
    take(objectives_[i].grad_norm, &grad_norm);
    take(objectives_[i].loss_scale, &loss_scale);
    take(objectives_[i].skipped, skipped);
    CodeShares codes;
    take(objectives_[i].codes, &codes);
    metrics[i].loss = loss;
    metrics[i].grad_norm = grad_norm;
    metrics[i].loss_scale = loss_scale;
    metrics[i].skipped = skipped[0];
    metrics[i].skipped_in_a_row = skipped[1];
    if (objectives_[i].codes.exists) metrics[i].codes = codes;
    for (size_t k = 0; k < objectives_[i].declared.size(); ++k) {
      const auto& [sum, count, in_steps] = objectives_[i].declared[k];
      if (!in_steps && !all) continue;
      MetricSum& metric = metrics[i].declared[k];
      TakeElements(bytes, sum.type.dtype, metric.sum);
      bytes += runtime::Readback::Rounded(sum.bytes.size());
      if (metric.count) TakeElements(bytes, count.type.dtype, {&*metric.count, 1});
      bytes += runtime::Readback::Rounded(count.bytes.size());
    }
  }
}

std::span<const StepMetrics> Session::ReadMetrics() {
  Pending& pending = pending_.back();
  pending.readback->Start();
  ParseMetrics(pending.readback->Wait(), pending.metrics, true);
  return pending.metrics;
}

StepMetrics Session::Metrics(size_t objective) {
  ReadMetrics();
  return pending_.back().metrics.at(objective);
}

void Session::EndStep() {
  if (ended_ - taken_ + 2 == pending_.size()) {
    throw InternalError("more steps ahead than the device allows");
  }
  pending_[ended_++ % (pending_.size() - 1)].readback->Start();
}

std::span<const StepMetrics> Session::TakeMetrics() {
  if (taken_ == ended_) throw InternalError("no step has ended");
  const size_t places = pending_.size() - 1;
  Pending& pending = pending_[taken_ % places];
  const Pending& before = pending_[(taken_ + places - 1) % places];
  seconds_of_taken_.reset();
  ParseMetrics(pending.readback->Wait(), pending.metrics, false);
  if (taken_ > 0) seconds_of_taken_ = pending.readback->SecondsSince(*before.readback);
  ++taken_;
  return pending.metrics;
}

std::span<const StepMetrics> Session::Evaluate(std::span<const int64_t> targets, int64_t samples) {
  if (targets.size() != objectives_.size()) {
    throw InternalError(fmt::format("an evaluation of {} objectives is told about {}",
                                    objectives_.size(), targets.size()));
  }
  const auto sample_weight = static_cast<float>(1.0 / static_cast<double>(samples));
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto token_weight = static_cast<float>(1.0 / static_cast<double>(targets[i]));
    Put(objectives_[i].token_weight, &token_weight);
    Put(objectives_[i].sample_weight, &sample_weight);
    RunEvaluation(i);
  }
  return ReadMetrics();
}

void Session::RunEvaluation(size_t objective) {
  const int program = compiled_.step.evaluations.at(objective);
  GatherWeights();
  PutData(program, /*step=*/false);
  if (!has_stages()) return executors_[program]->Run();
  const StepRun what = EvaluationOfStage();
  Receive(what);
  executors_[program]->Run();
  Send(what);
  executors_[compiled_.step.evaluation_sums.at(objective)]->Run();
  link_->AwaitSends();
}

int64_t Session::used_bytes() const {
  int64_t used = 0;
  for (const auto& executor : executors_) {
    if (executor->runs() > 0) used = std::max(used, executor->used_bytes());
  }
  return used;
}

}  // namespace plimsoll::trainer
