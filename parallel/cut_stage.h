// Pipeline parallelism: cuts a program that was built for the complete model. A rank of the
// pipeline axis keeps one stage, which is some of the model's blocks.
//
//   forward    %x = …                     @block.5     forward    %stage.out = …         @block.5
//              %n = layer_norm(%x, …)     @block.6     backward   … = …(%stage.out.grad) @block.5
//   backward   %dx = layer_norm_dx(…)     @block.6
//              … = …(%dx)                 @block.5     of the stage that ends with block 5
//
// The next stage has %stage.in and %stage.in.grad instead. These four tensors are carried: ranks
// send and receive them between programs (trainer/step/step_programs.h).
//
// An evaluation ends with the sums of its metrics and of its values for single samples, in the form
// of an update. The pass runs when the program of all stages already has its update. Therefore each
// rank draws the numbers that a single rank would draw (graph::Builder::NextKey counts nodes), and
// adds up gradients in the order of the complete model. The stages exchange in the update what they
// need of each other's gradients and metrics:
//
//   backward   %loss = fill()                          on stages that have no loss
//   update     %loss = all_reduce_start(%loss)
//              %loss.all = all_reduce_done(%loss)
//              %a.squares = square_sum(%a.grad)        of the stage's own gradients
//              %own = stack(%a.squares, …)             padded to the longest stack
//              %all = all_gather(%own)                 f64[stages × these]
//              %norm = root_of_sums(%all+…, …)         in the order of the whole model
//
// A table that both embeds tokens and predicts them is on the first and on the last stage. Each of
// the two stages computes its part of the gradient, for all micro-batches; both then update the
// table with the sum of the two parts:
//
//   update     %table.grad = all_reduce_start(%table.grad) {axis="ends"}
//              %table.grad.all = all_reduce_done(%table.grad)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/pass.h"

namespace plimsoll::parallel {

// The tensors that a stage receives and sends: an activation and its gradient, at both ends.
// activation received from the previous stage
inline constexpr std::string_view kStageIn = "stage.in";
inline constexpr std::string_view kStageOut = "stage.out";  // activation sent to the next stage
// gradient sent to the previous stage
inline constexpr std::string_view kStageInGrad = "stage.in.grad";
// Gradient received from the next stage.
inline constexpr std::string_view kStageOutGrad = "stage.out.grad";

inline constexpr std::string_view kStageTensors[] = {kStageIn, kStageOut, kStageInGrad,
                                                     kStageOutGrad};

struct CutStageOptions {
  std::vector<int64_t> blocks;  // the number of blocks of each stage
  int64_t stage = 0;            // the stage of this rank
};

// Throws UserError if the model cannot be cut at these blocks (parallel/stage_map.h).
class CutStage : public graph::Pass {
 public:
  explicit CutStage(CutStageOptions options) : options_(std::move(options)) {}
  std::string_view name() const override { return "cut_stage"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kTyped},
            .gives = {graph::Fact::kCut},
            .spoils = graph::FactsFrom(graph::Fact::kGathered)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  CutStageOptions options_;
};

}  // namespace plimsoll::parallel
