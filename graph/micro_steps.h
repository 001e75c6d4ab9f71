// Programs that hold several micro-steps. Passes work on one micro-step; at the end, the resulting
// programs are appended to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::graph {

// The name of a tensor that exists once for each micro-step of a program: "tokens" in micro-step 0,
// "micro_step.1.tokens" in micro-step 1.
std::string OfMicroStep(int64_t number, std::string_view name);
// The parts of a name that OfMicroStep makes.
struct MicroStepName {
  int64_t number;
  std::string_view name;
};
MicroStepName ParseMicroStepName(std::string_view name);

// How many micro-steps have nodes in the program.
size_t CountMicroSteps(const Program& program);

// Appends the nodes of other programs as further micro-steps (Node::micro_step). Carried tensors
// are shared by name, except inputs that `own` selects: such an input exists once for each
// micro-step, as temporaries do. Throws InternalError when a shared tensor differs in type, role or
// residency.
class AppendMicroSteps : public Pass {
 public:
  // `of_next`: the facts that hold of the programs `next`, and so of the joined program.
  AppendMicroSteps(std::vector<const Program*> next, std::function<bool(const Tensor&)> own,
                   Facts of_next = {})
      : next_(std::move(next)), own_(std::move(own)), of_next_(std::move(of_next)) {}
  std::string_view name() const override { return "micro_steps"; }
  Contract contract() const override;
  PassResult Run(Program& program) override;

 private:
  std::vector<const Program*> next_;
  std::function<bool(const Tensor&)> own_;
  Facts of_next_;
};

}  // namespace plimsoll::graph
