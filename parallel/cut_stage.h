// Pipeline parallelism: a rank of the pipeline axis keeps one stage, some of the model's blocks, of
// a program that was built for the whole model.
//
//   forward    %x = …                     @block.5     forward    %stage.out = …         @block.5
//              %n = layer_norm(%x, …)     @block.6     backward   … = …(%stage.out.grad) @block.5
//   backward   %dx = layer_norm_dx(…)     @block.6
//              … = …(%dx)                 @block.5     of the stage that ends with block 5
//
// The next stage has %stage.in and %stage.in.grad in their place. These four are carried:
// ranks send and receive them between programs (trainer/step/step_programs.h).
//
// An evaluation ends with the sums of its metrics and of what it says of single samples, as if they
// were an update. The pass runs when the whole program has its update. So each rank draws the
// numbers that one rank draws (graph::Builder::NextKey counts nodes), and counts gradients in the
// order of the whole model. What all stages need of each other's gradients and metrics they
// exchange in the update:
//
//   backward   %loss = fill()                          on stages that have no loss
//   update     %loss = all_reduce_start(%loss)
//              %loss.all = all_reduce_done(%loss)
//              %a.squares = square_sum(%a.grad)        of the stage's own gradients
//              %own = stack(%a.squares, …)             padded to the longest stack
//              %all = all_gather(%own)                 f64[stages × these]
//              %norm = root_of_sums(%all+…, …)         in the order of the whole model
//
// A table that both embeds tokens and predicts them is on the first and on the last stage. Each
// makes its part of the gradient, of all micro-batches; then both update by one sum of two parts:
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

// What a stage receives, and sends: an activation and its gradient, in both directions.
inline constexpr std::string_view kStageIn = "stage.in";             // from the stage before
inline constexpr std::string_view kStageOut = "stage.out";           // to the next one
inline constexpr std::string_view kStageInGrad = "stage.in.grad";    // to the stage before
inline constexpr std::string_view kStageOutGrad = "stage.out.grad";  // from the next one

inline constexpr std::string_view kStageTensors[] = {kStageIn, kStageOut, kStageInGrad,
                                                     kStageOutGrad};

struct CutStageOptions {
  std::vector<int64_t> blocks;  // of each stage
  int64_t stage = 0;            // that this rank keeps
};

// UserError where the model cannot be cut there (parallel/stage_map.h).
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
