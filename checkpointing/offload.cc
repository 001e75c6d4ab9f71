#include "checkpointing/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "checkpointing/saved.h"
#include "checkpointing/view.h"
#include "graph/block.h"
#include "ops/collectives/collective.h"

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

// So many groups' copies may be under way in each direction, and a copy is given so many times its
// seconds, since copies may be slower than assumed, or nodes faster.
constexpr int64_t kCopiesUnderWay = 2;
constexpr double kCopySlack = 1.5;

// The transfer of one tensor to the host and back.
struct Trip {
  TensorId original = kNoTensor;  // on the device, until it has left
  TensorId host = kNoTensor;      // its copy on the host, while it arrives
  TensorId away = kNoTensor;      // the same, once it has arrived
  TensorId back = kNoTensor;      // its new copy on the device, while it arrives
  TensorId here = kNoTensor;      // the same, once it has arrived
  int block = graph::kNoBlock;    // of the producer
  std::string scope;
};

class Offloader {
 public:
  Offloader(Program& program, const OffloadOptions& options)
      : program_(program),
        options_(options),
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
    SetSizes(departures_);
    SetSizes(arrivals_);
    room_ = kCopiesUnderWay * (Timed() ? BytesOfLargestBlock() : 1);
    nodes_ = std::move(program_.mutable_nodes());
    result_.reserve(nodes_.size() + 4 * trips_.size());
    SetDepartureEnds();
    SetArrivalStarts();
    Forward();
    Backward();
    program_.mutable_nodes() = std::move(result_);
    program_.DropUnusedTensors();
    return {true,
            fmt::format("{} tensors wait on the host, activations {} → {}", trips_.size(),
                        FormatBytes(TotalBytes(saved)), FormatBytes(TotalBytes(saved) - bytes))};
  }

 private:
  // Tensors that leave, or are needed, at the same node.
  struct Group {
    std::vector<int> trips;
    int64_t size = 0;  // what its copies take of the room for those in flight
    int node = 0;      // the one before which it has left, or starts to come back
  };
  using Groups = std::map<int, Group>;  // by node

  void Plan(const SavedTensor& saved) {
    const int trip = static_cast<int>(trips_.size());
    const int last = saved.forward_uses.empty() ? saved.producer : saved.forward_uses.back();
    departures_[last].trips.push_back(trip);
    arrivals_[saved.uses.front()].trips.push_back(trip);
    trip_of_[saved.tensor] = trip;
    Trip planned;
    planned.original = saved.tensor;
    planned.block = saved.block;
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

  // A group counts as one. Where it is known how long copies take, it counts by its bytes: the
  // copies of one block start at short intervals, and have the time until the next block's.
  void SetSizes(Groups& groups) const {
    for (auto& [node, group] : groups) {
      if (!Timed()) {
        group.size = 1;
        continue;
      }
      for (int trip : group.trips) group.size += BytesOf(trips_[trip]);
    }
  }

  int64_t BytesOf(const Trip& trip) const { return program_.tensor(trip.original).bytes(); }

  // Or of the largest group.
  int64_t BytesOfLargestBlock() const {
    int64_t most = 0;
    for (const auto& [node, group] : departures_) most = std::max(most, group.size);
    for (const auto& [node, group] : arrivals_) most = std::max(most, group.size);
    std::map<int, int64_t> by_block;
    for (const Trip& trip : trips_) {
      if (trip.block != graph::kNoBlock)
        most = std::max(most, by_block[trip.block] += BytesOf(trip));
    }
    return most;
  }

  bool Timed() const { return options_.node_seconds != nullptr; }

  // When each of the nodes [from, to) begins, and when the last one ends.
  std::vector<double> Times(int from, int to) const {
    std::vector<double> times = {0};
    for (int n = from; n < to; ++n) {
      const bool view = nodes_[n].op->view;
      times.push_back(times.back() +
                      (view ? 0 : options_.node_seconds(program_.CallOf(nodes_[n]).get())));
    }
    return times;
  }

  double CopySeconds(const Group& group) const {
    double seconds = 0;
    for (int trip : group.trips) {
      seconds += options_.copy_seconds(BytesOf(trips_[trip]));
    }
    return seconds;
  }

  // Copies run one after another.
  void SetDepartureEnds() {
    for (auto& [node, group] : departures_) group.node = forward_;
    if (!Timed()) return;
    const std::vector<double> times = Times(0, forward_);
    double free_from = 0;  // the link
    for (auto& [node, group] : departures_) {
      const double seconds = CopySeconds(group), start = std::max(times[node + 1], free_from);
      free_from = start + seconds;
      const auto end = std::ranges::lower_bound(times, start + kCopySlack * seconds);
      group.node = static_cast<int>(end - times.begin());
    }
  }

  void SetArrivalStarts() {
    for (auto& [node, group] : arrivals_) group.node = forward_;
    if (!Timed()) return;
    const std::vector<double> times = Times(forward_, static_cast<int>(nodes_.size()));
    double latest = times.back();  // for the copy to end
    for (auto& [node, group] : std::views::reverse(arrivals_)) {
      const double seconds = CopySeconds(group);
      latest = std::min(latest, times[node - forward_]);
      const double start = std::max(0.0, latest - kCopySlack * seconds);
      const auto after = std::ranges::upper_bound(times, start);
      group.node = std::min(node, forward_ + static_cast<int>(after - times.begin()) - 1);
      latest -= seconds;
    }
  }

  void Forward() {
    std::deque<const Group*> departing;
    int64_t size = 0;  // of these
    const auto finish_while = [&](auto condition) {
      for (; !departing.empty() && condition(*departing.front()); departing.pop_front()) {
        for (int trip : departing.front()->trips) FinishDeparture(trips_[trip]);
        size -= departing.front()->size;
      }
    };
    for (int n = 0; n < forward_; ++n) {
      finish_while([&](const Group& group) { return group.node <= n; });
      Move(n);
      const auto found = departures_.find(n);
      if (found == departures_.end()) continue;
      const Group& leaves = found->second;
      finish_while([&](const Group&) { return size + leaves.size > room_; });
      for (int trip : leaves.trips) StartDeparture(trips_[trip]);
      departing.push_back(&leaves);
      size += leaves.size;
    }
    finish_while([](const Group&) { return true; });
  }

  void Backward() {
    auto next = arrivals_.cbegin(), needed = next;  // to start, and to be done
    int64_t size = 0;                               // of those between
    const auto start_until = [&](int n) {
      for (; next != arrivals_.cend(); ++next) {
        const Group& group = next->second;
        if (group.node > n || size + group.size > room_) return;
        for (int trip : group.trips) StartArrival(trips_[trip]);
        size += group.size;
      }
    };
    for (int n = forward_; n < static_cast<int>(nodes_.size()); ++n) {
      phase_ = nodes_[n].phase;
      start_until(n);
      if (needed != arrivals_.cend() && needed->first == n) {
        for (int trip : needed->second.trips) FinishArrival(trips_[trip]);
        size -= needed->second.size;
        ++needed;
        start_until(n);
      }
      Move(n);
    }
  }

  void StartDeparture(Trip& trip) {
    trip.host = AddTensor(trip, ".host", Place::kHost, kNoTensor);
    Emit(trip, "copy_start", {trip.original}, trip.host);
  }

  void FinishDeparture(Trip& trip) {
    trip.away = AddTensor(trip, ".away", Place::kHost, trip.host);
    Emit(trip, "copy_done", {trip.host, trip.original}, trip.away);
  }

  void StartArrival(Trip& trip) {
    trip.back = AddTensor(trip, ".back", Place::kDevice, kNoTensor);
    Emit(trip, "copy_start", {trip.away}, trip.back);
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
    const bool view = nodes_[n].op->view;
    if (n >= forward_ && view && Travels(program_.Root(nodes_[n].outputs[0])))
      return;  // made again where it is read
    // A view may be made again later. Of other nodes, only op and phase are looked at once more.
    Node node = view ? nodes_[n] : std::move(nodes_[n]);
    if (n >= forward_) {
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
  const OffloadOptions& options_;
  const int forward_;
  std::vector<Node> nodes_;            // the original nodes
  const std::vector<int> view_nodes_;  // by original tensor
  std::vector<int> trip_of_;           // by original tensor; -1: stays
  std::vector<Trip> trips_;
  Groups departures_;  // by the node after which they start
  Groups arrivals_;    // by the node before which they are done
  int64_t room_ = 0;   // for copies in flight, each way
  std::vector<Node> result_;
  Phase phase_ = Phase::kForward;
};

}  // namespace

graph::PassResult Offload::Run(Program& program) { return Offloader(program, options_).Run(); }

}  // namespace plimsoll::checkpointing
