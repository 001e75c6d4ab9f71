// ZeRO, stage 3, with 8-bit layers (amp/fp8.h): ranks gather the 8-bit codes of a weight, which are
// half the bytes of its 16 bits. PyTorch's torchao does the same for FSDP2:
// `enable_fsdp_float8_all_gather` and `precompute_float8_dynamic_scale_for_fsdp`.
#pragma once

#include <string>
#include <utility>

#include "graph/pass.h"

namespace plimsoll::parallel {

// Rewrites the gathers of weights that are used only to make 8-bit codes. Other weights are
// gathered in 16 bits. All ranks need the same scale, and therefore the largest magnitude of the
// unsharded weight: one all-reduce finds the magnitudes of all weights at the start of an update's
// first micro-step.
//
//   forward    %w.gathered = all_gather_start(%w)
//              %w.whole = all_gather_done(%w.gathered, %w)
//              %w.largest = largest_magnitude(%w.whole)
//              _, %w.codes, %w.scale = quantize(%w.whole, %w.largest)
//   backward   %w.codes_t, _, %w.scale.2 = quantize(%w.whole, %w.largest)
//
// becomes
//
//   forward    %a = largest_magnitude(%w), …                  of the rank's own parts
//              %fp8_weights = stack(%a, …)                    carried to the other micro-steps
//              %fp8_weights = all_reduce_start(%fp8_weights) {reduction="max"}
//              %fp8_weights.all = all_reduce_done(%fp8_weights)
//              %fp8_weights.w = slice(%fp8_weights.all) {first=0}
//              …
//              _, %w.codes.own, %w.scale = quantize(%w, %fp8_weights.w)
//              %w.gathered = all_gather_start(%w.codes.own)
//              %w.whole = all_gather_done(%w.gathered, %w.codes.own)
//   backward   %w.codes_t = transpose_codes(%w.whole)
//
// Codes and scales are bit-identical to those that are made of the gathered weight. `%w.codes.own`
// has the role of a parameter, as the shard that it is made of: all other passes treat the gather
// as that of a parameter.
class GatherCodes : public graph::Pass {
 public:
  struct Options {
    std::string objective = {};  // its name is part of the magnitudes' names (graph/objective.h)
    bool first = true;           // whether the program is an update's first micro-step
  };
  GatherCodes() = default;
  explicit GatherCodes(Options options) : options_(std::move(options)) {}
  std::string_view name() const override { return "gather_codes"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kQuantized, graph::Fact::kGathered},
            .spoils = graph::FactsFrom(graph::Fact::kReduced),
            .keeps_numbers = true};
  }
  // Runs after ZeroParameters, before unread results are removed.
  graph::PassResult Run(graph::Program& program) override;

 private:
  Options options_;
};

}  // namespace plimsoll::parallel
