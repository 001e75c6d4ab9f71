#include "graph/micro_steps.h"

#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/error.h"

namespace plimsoll::graph {
namespace {

constexpr std::string_view kMicroStep = "micro_step.";

class Appender {
 public:
  Appender(Program& program, const Program& next, const std::function<bool(const Tensor&)>& own)
      : program_(program),
        next_(next),
        own_(own),
        number_(program.nodes().empty() ? 0 : program.nodes().back().micro_step + 1) {}

  void Run() {
    for (const Tensor& tensor : next_.tensors()) ids_.push_back(IdOf(tensor));
    for (Node node : next_.nodes()) {
      for (TensorId& id : node.inputs) id = Mapped(id);
      for (TensorId& id : node.outputs) id = Mapped(id);
      node.workspace = Mapped(node.workspace);
      node.micro_step = number_;
      program_.mutable_nodes().push_back(std::move(node));
    }
  }

 private:
  TensorId Mapped(TensorId id) const {
    return id == kNoTensor ? kNoTensor : ids_[static_cast<size_t>(id)];
  }

  // The base of a view is mapped first.
  TensorId IdOf(Tensor tensor) {
    if (tensor.alias) tensor.alias->base = Mapped(tensor.alias->base);
    if (tensor.persistent && !own_(tensor)) {
      const TensorId known = program_.Find(tensor.name);
      if (known != kNoTensor) return Shared(known, tensor);
    } else {
      tensor.name = OfMicroStep(number_, tensor.name);
    }
    return program_.AddTensor(std::move(tensor));
  }

  // A view of a carried tensor is carried if it is in either micro-step.
  TensorId Shared(TensorId known, const Tensor& tensor) {
    Tensor& there = program_.mutable_tensor(known);
    const bool same = (there.persistent || there.alias) && there.type == tensor.type &&
                      there.role == tensor.role && there.place == tensor.place &&
                      there.alias == tensor.alias && there.owner == tensor.owner &&
                      there.merge == tensor.merge && there.names_crc == tensor.names_crc;
    if (!same) {
      throw InternalError("micro-step " + std::to_string(number_) + " of program '" +
                          program_.name() + "' carries another '" + tensor.name +
                          "' than those before it");
    }
    there.persistent = true;
    return known;
  }

  Program& program_;
  const Program& next_;
  const std::function<bool(const Tensor&)>& own_;
  const int32_t number_;
  std::vector<TensorId> ids_;  // by id in `next_`: the id in `program_`
};

}  // namespace

size_t CountMicroSteps(const Program& program) {
  std::set<int32_t> numbers;
  for (const Node& node : program.nodes()) numbers.insert(node.micro_step);
  return numbers.size();
}

std::string OfMicroStep(int64_t number, std::string_view name) {
  if (number == 0) return std::string(name);
  return std::string(kMicroStep) + std::to_string(number) + "." + std::string(name);
}

MicroStepName ParseMicroStepName(std::string_view name) {
  int64_t number = 0;
  if (!name.starts_with(kMicroStep)) return {number, name};
  const char* const begin = name.data() + kMicroStep.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), number);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return {0, name};
  return {number, name.substr(static_cast<size_t>(end - name.data()) + 1)};
}

Contract AppendMicroSteps::contract() const {
  Contract contract{.gives = {Fact::kJoined}, .spoils = {}};
  if (next_.empty()) return contract;
  contract.spoils = FactsFrom(Fact::kTyped);
  for (const Fact fact : of_next_) contract.spoils.erase(fact);
  return contract;
}

PassResult AppendMicroSteps::Run(Program& program) {
  for (const Program* next : next_) Appender(program, *next, own_).Run();
  return {!next_.empty(), Counted(next_.size(), "micro-step") + " appended"};
}

}  // namespace plimsoll::graph
