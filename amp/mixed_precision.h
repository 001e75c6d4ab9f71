// Mixed precision as a pass over a model's forward program, before autodiff: Micikevicius et al.
// 2018, "Mixed Precision Training". The types of gradients follow: the gradient of every op has the
// types of the op.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "amp/precision_policy.h"
#include "graph/pass.h"

namespace plimsoll::amp {

// Every node gets its floating-point inputs in the type that the policy gives its op; `cast` nodes
// are added where needed. A node's output types follow from its inputs. A tensor is cast to a type
// only once; widening followed by narrowing is left out. Scalars (rank 0: scales, weights of
// tokens, losses), integers, results that the host reads, and carried state keep their types.
//
// A parameter has one type in all programs of a step: float32 when options.fp32_parameters names
// it, else the low type. Ops that need the other type read the parameter through a cast.
//
// Without a low type (options.enabled()) no type changes. With options.tf32, low ops that declare a
// kernel for it (graph::PrecisionRule) get the attribute tf32, unless options.fp32_ops names them;
// their backward ops inherit it.
class MixedPrecision : public graph::Pass {
 public:
  explicit MixedPrecision(AmpOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "amp"; }
  graph::Contract contract() const override {
    return {.gives = {graph::Fact::kTyped}, .spoils = graph::FactsFrom(graph::Fact::kMarked)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  AmpOptions options_;
};

// The parameters that an op in float32 reads, in a program as the model built it. Parameters that
// are read in both types are included: an op that needs float32 never reads a rounded weight. The
// model's loss program decides for all its programs (training, evaluation, logits).
std::set<std::string> Float32Parameters(const graph::Program& program, const AmpOptions& options);

}  // namespace plimsoll::amp
