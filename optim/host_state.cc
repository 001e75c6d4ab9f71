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
  Value host;               // carried
  size_t input, output;     // of the update: where it reads and writes the tensor
  Value copy = kNoTensor;   // the loaded copy
  Value fresh = kNoTensor;  // the result to store
};

struct HostUpdate {
  Node node;
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

HostUpdate Find(const Program& program, const Node& node) {
  HostUpdate update{node, {}};
  for (const graph::InPlacePair& pair : node.op->in_place) {
    const size_t input = static_cast<size_t>(pair.input), output = static_cast<size_t>(pair.output);
    if (input >= node.inputs.size() || output >= node.outputs.size()) continue;
    const TensorId id = node.inputs[input];
    if (id == kNoTensor || id != node.outputs[output]) continue;
    const Role role = program.tensor(id).role;
    if (role != Role::kOptimizerState && role != Role::kMaster) continue;
    update.state.push_back({id, input, output});
  }
  return update;
}

class Stager {
 public:
  explicit Stager(Program& program) : program_(program), g_(program) {
    g_.set_phase(graph::Phase::kUpdate);
    g_.set_made_by("host_state");
  }

  void StartLoading(Group group) {
    for (HostUpdate& update : group) {
      g_.set_scope(update.node.scope);
      for (Staged& staged : update.state) {
        staged.copy = ops::CopyStart(g_, staged.host, Place::kDevice, NameOf(staged, "staged"));
        program_.mutable_tensor(staged.copy).role = program_.tensor(staged.host).role;
      }
    }
  }

  void FinishLoading(Group group) {
    for (HostUpdate& update : group) {
      g_.set_scope(update.node.scope);
      for (Staged& staged : update.state) {
        const Value here = ops::CopyDone(g_, staged.copy, staged.host, NameOf(staged, "loaded"));
        program_.mutable_tensor(here).role = program_.tensor(staged.host).role;
        update.node.inputs[staged.input] = here;
      }
    }
  }

  void Compute(Group group) {
    for (HostUpdate& update : group) {
      for (Staged& staged : update.state) {
        const Tensor& host = program_.tensor(staged.host);
        Tensor fresh;
        fresh.name = program_.FreshName(host.name + ".updated");
        fresh.type = host.type;
        fresh.role = host.role;
        staged.fresh = program_.AddTensor(std::move(fresh));
        update.node.outputs[staged.output] = staged.fresh;
      }
      program_.mutable_nodes().push_back(update.node);
    }
  }

  void StartStoring(Group group) {
    for (const HostUpdate& update : group) {
      g_.set_scope(update.node.scope);
      for (const Staged& staged : update.state) {
        g_.EmitInto({staged.host}, "copy_start", {staged.fresh});
      }
    }
  }

  void FinishStoring(Group group) {
    for (const HostUpdate& update : group) {
      g_.set_scope(update.node.scope);
      for (const Staged& staged : update.state) {
        const Value stored = ops::CopyDone(g_, staged.host, staged.fresh, NameOf(staged, "stored"));
        Tensor& tensor = program_.mutable_tensor(stored);
        tensor.role = program_.tensor(staged.host).role;
        // This view of a carried tensor must be persistent, and so a result: no node of this
        // program reads it, yet the node must stay.
        tensor.persistent = true;
      }
    }
  }

 private:
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
    if (node.phase == graph::Phase::kUpdate && WritesAParameter(program, node)) {
      updates.push_back(Find(program, node));
    } else {
      (updates.empty() ? before : after).push_back(std::move(node));
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
