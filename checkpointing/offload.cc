#include "checkpointing/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "checkpointing/saved.h"
#include "checkpointing/view.h"
#include "ops/collective.h"

namespace plimsoll::checkpointing {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Phase;
using graph::Place;
using graph::Program;
using graph::Retention;
using graph::Tensor;
using graph::TensorId;

constexpr char kHereSuffix[] = ".here";
// Groups in flight at once, each way: a single copy may take longer than the nodes until the next
// one starts, as long as copies keep pace on the whole.
constexpr size_t kUnderWay = 2;

// The transfer of one tensor to the host and back.
struct Trip {
  TensorId original = kNoTensor;  // on the device, until it has left
  TensorId host = kNoTensor;      // its copy on the host, while it arrives
  TensorId away = kNoTensor;      // the same, once it has arrived
  TensorId back = kNoTensor;      // its new copy on the device, while it arrives
  TensorId here = kNoTensor;      // the same, once it has arrived
  std::string scope;
};

class Offloader {
 public:
  explicit Offloader(Program& program)
      : program_(program),
        forward_(ForwardNodes(program)),
        view_nodes_(FindViewNodes(program)),
        trip_of_(program.tensors().size(), -1) {}

  graph::PassResult Run() {
    const std::vector<SavedTensor> saved = FindSaved(program_);
    int64_t bytes = 0;
    for (const SavedTensor& tensor : saved) {
      if (program_.tensor(tensor.tensor).retention != Retention::kOffload || tensor.read_at_once) {
        continue;
      }
      bytes += tensor.bytes;
      Plan(tensor);
    }
    if (trips_.empty()) return {false, "nothing to offload"};
    nodes_ = std::move(program_.mutable_nodes());
    for (int n = 0; n < forward_; ++n) {
      Move(n);
      const auto departure = departures_.find(n);
      if (departure == departures_.end()) continue;
      FinishDepartures(kUnderWay - 1);
      for (int trip : departure->second) StartDeparture(trip);
      departing_.push_back(&departure->second);
    }
    FinishDepartures(0);
    phase_ = nodes_[forward_].phase;
    auto next = arrivals_.cbegin();  // the next group to start
    for (size_t i = 0; i < kUnderWay; ++i) StartArrivals(next);
    for (int n = forward_; n < static_cast<int>(nodes_.size()); ++n) {
      phase_ = nodes_[n].phase;
      if (const auto arrival = arrivals_.find(n); arrival != arrivals_.end()) {
        for (int trip : arrival->second) FinishArrival(trips_[trip]);
        StartArrivals(next);
      }
      Move(n);
    }
    program_.mutable_nodes() = std::move(result_);
    program_.DropUnusedTensors();
    return {true,
            fmt::format("{} tensors wait on the host, activations {} → {}", trips_.size(),
                        FormatBytes(TotalBytes(saved)), FormatBytes(TotalBytes(saved) - bytes))};
  }

 private:
  using Groups = std::map<int, std::vector<int>>;  // by node: indices into trips_

  void Plan(const SavedTensor& saved) {
    const int trip = static_cast<int>(trips_.size());
    const int last = saved.forward_uses.empty() ? saved.producer : saved.forward_uses.back();
    departures_[last].push_back(trip);
    arrivals_[saved.uses.front()].push_back(trip);
    trip_of_[saved.tensor] = trip;
    Trip planned;
    planned.original = saved.tensor;
    planned.scope = program_.nodes()[saved.producer].scope;
    trips_.push_back(std::move(planned));
  }

  TensorId AddTensor(const Trip& trip, const char* suffix, Place place, TensorId view_of) {
    const Tensor& original = program_.tensor(trip.original);
    Tensor tensor;
    tensor.name = program_.FreshName(original.name + suffix);
    tensor.type = original.type;
    tensor.place = place;
    if (view_of != kNoTensor) tensor.alias = graph::Alias{view_of, 0};
    return program_.AddTensor(std::move(tensor));
  }

  void Emit(const Trip& trip, const char* op, std::vector<TensorId> inputs, TensorId output) {
    Node node;
    node.op = &graph::OpRegistry::Get().Require(op);
    node.inputs = std::move(inputs);
    node.outputs = {output};
    node.phase = phase_;
    node.scope = trip.scope;
    node.made_by = "offload";
    result_.push_back(std::move(node));
  }

  void StartDeparture(int index) {
    Trip& trip = trips_[index];
    trip.host = AddTensor(trip, ".host", Place::kHost, kNoTensor);
    Emit(trip, "copy_start", {trip.original}, trip.host);
  }

  // Finishes all departing groups but the last `left`.
  void FinishDepartures(size_t left) {
    for (; departing_.size() > left; departing_.pop_front()) {
      for (int index : *departing_.front()) {
        Trip& trip = trips_[index];
        trip.away = AddTensor(trip, ".away", Place::kHost, trip.host);
        Emit(trip, "copy_done", {trip.host, trip.original}, trip.away);
      }
    }
  }

  // Starts the next group, if there is one.
  void StartArrivals(Groups::const_iterator& group) {
    if (group == arrivals_.end()) return;
    for (int index : (group++)->second) {
      Trip& trip = trips_[index];
      trip.back = AddTensor(trip, ".back", Place::kDevice, kNoTensor);
      Emit(trip, "copy_start", {trip.away}, trip.back);
    }
  }

  void FinishArrival(Trip& trip) {
    trip.here = AddTensor(trip, kHereSuffix, Place::kDevice, trip.back);
    Emit(trip, "copy_done", {trip.back, trip.away}, trip.here);
  }

  bool Travels(TensorId root) const {
    return static_cast<size_t>(root) < trip_of_.size() && trip_of_[root] >= 0;
  }

  // Moves a node of the original program to the result; after the forward pass it reads the tensors
  // that came back.
  void Move(int n) {
    Node node = nodes_[n];
    if (n >= forward_) {
      if (node.op->view && Travels(program_.Root(node.outputs[0])))
        return;  // made again where it is read
      for (TensorId& id : node.inputs) id = Here(id);
    }
    result_.push_back(std::move(node));
  }

  TensorId Here(TensorId id) {
    if (id == kNoTensor || !Travels(program_.Root(id))) return id;
    if (!program_.tensor(id).alias) return trips_[trip_of_[id]].here;
    const TensorId base = Here(program_.tensor(id).alias->base);
    const TensorId view = AddViewLike(program_, id, base, kHereSuffix);
    const int n = view_nodes_[id];
    // A collective was done before its result left.
    if (n >= 0 && !ops::IsCollectiveDone(*nodes_[n].op)) {
      Node node = nodes_[n];
      node.inputs[0] = base;
      node.outputs = {view};
      node.phase = phase_;
      node.made_by = "offload";
      result_.push_back(std::move(node));
    }
    return view;
  }

  Program& program_;
  const int forward_;
  std::vector<Node> nodes_;            // the original nodes
  const std::vector<int> view_nodes_;  // by original tensor
  std::vector<int> trip_of_;           // by original tensor; -1: stays
  std::vector<Trip> trips_;
  Groups departures_;                              // by the node after which they start
  Groups arrivals_;                                // by the node before which they are done
  std::deque<const std::vector<int>*> departing_;  // groups, the oldest first
  std::vector<Node> result_;
  Phase phase_ = Phase::kForward;
};

}  // namespace

graph::PassResult Offload::Run(Program& program) { return Offloader(program).Run(); }

}  // namespace plimsoll::checkpointing
