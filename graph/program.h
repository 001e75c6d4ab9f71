// A program: tensors, and nodes in the order in which they run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/name_table.h"
#include "graph/op.h"
#include "graph/tensor.h"

namespace plimsoll::graph {

enum class Phase : uint8_t { kForward, kBackward, kRecompute, kUpdate };

std::string_view Name(Phase phase);
std::optional<Phase> ParsePhase(std::string_view name);

struct Node {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<TensorId> inputs;   // kNoTensor: an optional input that is absent
  std::vector<TensorId> outputs;  // kNoTensor: an optional output that nobody reads
  TensorId workspace = kNoTensor;
  Phase phase = Phase::kForward;
  int32_t micro_step = 0;  // the number of the micro-step within the program (graph/micro_steps.h)
  std::string scope;       // the place in the model: "block.3.attn"
  std::string made_by;     // the pass that made the node; empty: the model itself
  bool uncounted = false;  // Builder::NextKey leaves the node out
};

class Program {
 public:
  explicit Program(std::string name = "") : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Invalidates references to tensors. Throws InternalError when the name is taken or the alias
  // refers to an absent tensor.
  TensorId AddTensor(Tensor tensor);
  const Tensor& tensor(TensorId id) const { return tensors_[id]; }
  Tensor& mutable_tensor(TensorId id) { return tensors_[id]; }  // not for renaming: see Rename
  void Rename(TensorId id, std::string name);
  const std::vector<Tensor>& tensors() const { return tensors_; }
  // Returns kNoTensor when no tensor has that name.
  TensorId Find(std::string_view name) const;
  TensorId Require(std::string_view name) const;  // throws InternalError if no tensor has that name
  // Returns a free name: `stem` or a numbered one, stem.2, stem.3, …
  std::string FreshName(std::string_view stem) const;
  // Follows aliases to the tensor that owns the memory.
  TensorId Root(TensorId id) const;

  const std::vector<Node>& nodes() const { return nodes_; }
  std::vector<Node>& mutable_nodes() { return nodes_; }

  // Removes tensors that no node mentions and that are not persistent; ids change.
  void DropUnusedTensors();

  // The types of a node's arguments, as ops see them. The object refers to this program: it must
  // not outlive the program, nor be used after tensors are added or removed.
  struct Call {
    std::vector<const TensorType*> inputs, outputs;
    const Node* node;
    OpCall get() const { return {*node->op, inputs, outputs, node->attributes}; }
  };
  Call CallOf(const Node& node) const;

 private:
  std::string name_;
  std::vector<Tensor> tensors_;
  std::vector<Node> nodes_;
  NameTable names_;
};

}  // namespace plimsoll::graph
