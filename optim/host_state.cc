#include "optim/host_state.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/builder.h"
#include "ops/copy.h"

namespace plimsoll::optim {
namespace {

using graph::Builder;
using graph::kNoTensor;
using graph::Node;
using graph::Place;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;
using graph::Value;

// One state tensor of an update, which passes through the device.
struct Staged {
  Value host;                 // carried
  Value copy = kNoTensor;     // the loaded copy
  Value current = kNoTensor;  // its value so far; the last one is stored
};

// The update of a parameter, and what follows on it: its average.
struct HostUpdate {
  std::vector<Node> nodes;
  std::vector<Staged> state;
};

// Updates whose state is transferred together.
using Group = std::span<HostUpdate>;

int64_t StateBytes(const Program& program, const HostUpdate& update) {
  int64_t bytes = 0;
  for (const Staged& staged : update.state) bytes += program.tensor(staged.host).bytes();
  return bytes;
}

// Groups neighbours as long as they have together at most a quarter of the largest update's bytes.
std::vector<Group> Groups(const Program& program, std::vector<HostUpdate>& updates) {
  int64_t largest = 0;
  for (const HostUpdate& update : updates) {
    largest = std::max(largest, StateBytes(program, update));
  }
  std::vector<Group> groups;
  int64_t bytes = 0;  // of the last one
  for (HostUpdate& update : updates) {
    const int64_t more = StateBytes(program, update);
    if (!groups.empty() && bytes + more <= largest / 4) {
      groups.back() = Group(groups.back().data(), groups.back().size() + 1);
      bytes += more;
    } else {
      groups.emplace_back(&update, 1);
      bytes = more;
    }
  }
  return groups;
}

bool WritesAParameter(const Program& program, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId id) {
    return id != kNoTensor && program.tensor(id).role == Role::kParameter;
  });
}

// Adds the node, with the state that it changes in place, to an update.
void Add(const Program& program, const Node& node, HostUpdate& update) {
  update.nodes.push_back(node);
  for (const graph::InPlacePair& pair : node.op->in_place) {
    const size_t input = static_cast<size_t>(pair.input), output = static_cast<size_t>(pair.output);
    if (input >= node.inputs.size() || output >= node.outputs.size()) continue;
    const TensorId id = node.inputs[input];
    if (id == kNoTensor || id != node.outputs[output]) continue;
    const Role role = program.tensor(id).role;
    if (role == Role::kOptimizerState || role == Role::kMaster) update.state.push_back({id});
  }
}

// The update of the parameter to which a later node belongs; nullptr: to none.
HostUpdate* Owner(std::vector<HostUpdate>& updates, const Node& node) {
  const auto found = std::ranges::find_if(
      updates, [&](const HostUpdate& update) { return update.nodes.front().scope == node.scope; });
  return found == updates.end() ? nullptr : &*found;
}

class Stager {
 public:
  explicit Stager(Program& program) : program_(program), g_(program) {
    g_.set_phase(graph::Phase::kUpdate);
    g_.set_made_by("host_state");
  }

  void StartLoading(Group group) {
    for (HostUpdate& update : group) {
      g_.set_scope(update.nodes.front().scope);
      for (Staged& staged : update.state) {
        staged.copy = ops::CopyStart(g_, staged.host, Place::kDevice, NameOf(staged, "staged"));
        program_.mutable_tensor(staged.copy).role = program_.tensor(staged.host).role;
      }
    }
  }

  void FinishLoading(Group group) {
    for (HostUpdate& update : group) {
      g_.set_scope(update.nodes.front().scope);
      for (Staged& staged : update.state) {
        staged.current = ops::CopyDone(g_, staged.copy, staged.host, NameOf(staged, "loaded"));
        program_.mutable_tensor(staged.current).role = program_.tensor(staged.host).role;
      }
    }
  }

  void Compute(Group group) {
    for (HostUpdate& update : group) {
      for (Node& node : update.nodes) {
        for (TensorId& id : node.inputs) {
          if (const Staged* const staged = Find(update, id)) id = staged->current;
        }
        for (TensorId& id : node.outputs) {
          if (Staged* const staged = Find(update, id)) id = staged->current = Fresh(staged->host);
        }
        program_.mutable_nodes().push_back(node);
      }
    }
  }

  void StartStoring(Group group) {
    for (const HostUpdate& update : group) {
      g_.set_scope(update.nodes.front().scope);
      for (const Staged& staged : update.state) {
        g_.EmitInto({staged.host}, "copy_start", {staged.current});
      }
    }
  }

  void FinishStoring(Group group) {
    for (const HostUpdate& update : group) {
      g_.set_scope(update.nodes.front().scope);
      for (const Staged& staged : update.state) {
        const Value stored =
            ops::CopyDone(g_, staged.host, staged.current, NameOf(staged, "stored"));
        Tensor& tensor = program_.mutable_tensor(stored);
        tensor.role = program_.tensor(staged.host).role;
        // This view of a carried tensor must be persistent, and so a result: no node of this
        // program reads it, yet the node must stay.
        tensor.persistent = true;
      }
    }
  }

 private:
  static Staged* Find(HostUpdate& update, TensorId id) {
    const auto found = std::ranges::find(update.state, id, &Staged::host);
    return found == update.state.end() ? nullptr : &*found;
  }

  // A tensor for the updated value.
  TensorId Fresh(Value host) {
    const Tensor& old = program_.tensor(host);
    Tensor fresh;
    fresh.name = program_.FreshName(old.name + ".updated");
    fresh.type = old.type;
    fresh.role = old.role;
    return program_.AddTensor(std::move(fresh));
  }

  // The name for the tensor within the scope of the update.
  std::string NameOf(const Staged& staged, const std::string& what) const {
    std::string name = program_.tensor(staged.host).name;
    const std::string scope = g_.scope() + ".";
    if (name.starts_with(scope)) name.erase(0, scope.size());
    return name + "." + what;
  }

  Program& program_;
  Builder g_;
};

}  // namespace

graph::PassResult HostState::Run(Program& program) {
  std::vector<Node> before, after;
  std::vector<HostUpdate> updates;
  for (Node& node : program.mutable_nodes()) {
    HostUpdate* owner = nullptr;
    if (node.phase == graph::Phase::kUpdate) {
      owner = WritesAParameter(program, node) ? &updates.emplace_back() : Owner(updates, node);
    }
    if (owner != nullptr) {
      Add(program, node, *owner);
    } else {
      // Counters and states of the model wait for no parameter, but an average for its counter.
      const bool waits = !updates.empty() && node.phase != graph::Phase::kUpdate;
      (waits ? after : before).push_back(std::move(node));
    }
  }
  int tensors = 0;
  int64_t bytes = 0;
  for (const HostUpdate& update : updates) {
    for (const Staged& staged : update.state) {
      program.mutable_tensor(staged.host).place = Place::kHost;
      bytes += program.tensor(staged.host).bytes();
      ++tensors;
    }
  }

  program.mutable_nodes() = std::move(before);
  Stager stager(program);
  const std::vector<Group> groups = Groups(program, updates);
  if (!groups.empty()) stager.StartLoading(groups.front());
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i > 0) stager.FinishStoring(groups[i - 1]);
    if (i + 1 < groups.size()) stager.StartLoading(groups[i + 1]);
    stager.FinishLoading(groups[i]);
    stager.Compute(groups[i]);
    stager.StartStoring(groups[i]);
  }
  if (!groups.empty()) stager.FinishStoring(groups.back());
  for (Node& node : after) program.mutable_nodes().push_back(std::move(node));
  return {tensors > 0, std::to_string(tensors) + " tensors of optimizer state, " +
                           FormatBytes(bytes) + ", live on the host"};
}

}  // namespace plimsoll::optim
