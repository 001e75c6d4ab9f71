// Ranks whose carried gradients live on the host, and their weights and state in all types, get the
// bits that they get with everything on the device. Started under mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/parallel/host_on_ranks.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;

class HostGradientsOnRanks : public HostOnRanks {};

TEST_F(HostGradientsOnRanks, CarriedGradientsKeepTheBits) {
  for (const bool llama : {false, true}) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      if (!llama && zero % 3 != 0) continue;  // ranks divide both models alike
      for (const bool clip : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, ZeRO {}{}", llama ? "Llama" : "GPT-2", zero,
                                 clip ? ", clipped" : ", weights and state too, in backward"));
        TinyRun run = Run(llama, zero);
        run.accumulate = 3;
        if (clip) run.update.clip_grad_norm = 0.05;
        run.gradients_on_host = true;
        run.weights_on_host = run.state_on_host = run.update_in_backward = !clip;
        ExpectSameAsOnDevice(run);
      }
    }
  }
}

// They leave once a step, when the block has passed, and come back for the update at the end. By
// themselves those that ranks divide are little of the peak.
TEST_F(HostGradientsOnRanks, CarriedGradientsKeepTheBitsBlocksFirst) {
  for (const int64_t zero : {0, 1, 2, 3}) {
    SCOPED_TRACE(fmt::format("ZeRO {}", zero));
    TinyRun run = Run(/*llama=*/true, zero);
    run.accumulate = run.micro_steps_per_program = 3;
    run.blocks_first = run.gradients_on_host = true;
    run.update.clip_grad_norm = 0.05;
    run.weights_on_host = run.state_on_host = zero > 0;
    ExpectSameAsOnDevice(run);
  }
}

TEST_F(HostGradientsOnRanks, SomeBlocksKeepTheBits) {
  for (const int64_t zero : {0, 1, 2, 3}) {
    for (const bool clip : {false, true}) {
      SCOPED_TRACE(fmt::format("ZeRO {}{}", zero, clip ? ", clipped" : ", in backward"));
      TinyRun run = Run(/*llama=*/true, zero);
      run.accumulate = 3;
      if (clip) run.update.clip_grad_norm = 0.05;
      run.update_in_backward = !clip;
      run.weights_on_host = run.state_on_host = run.gradients_on_host = true;
      run.host_blocks = {"block.1", "block.3"};
      ExpectSameAsOnDevice(run);
    }
  }
}

// What is stored, and how it is updated.
TEST_F(HostGradientsOnRanks, AllUpdatesKeepTheBits) {
  std::vector<std::pair<std::string, TinyRun>> runs;
  const auto add = [&](const std::string& name) -> TinyRun& {
    TinyRun& run = runs.emplace_back(name, Run(/*llama=*/true, /*zero=*/3)).second;
    run.weights_on_host = run.state_on_host = true;
    return run;
  };
  add("remainders").amp.dtype = DType::kBFloat16;
  TinyRun& low = add("gradients in bf16");
  low.amp.dtype = DType::kBFloat16;
  low.amp.low_gradients = true;
  low.update.master_weights = false;
  low.accumulate = 2;
  low.gradients_on_host = true;
  TinyRun& scaled = add("fp16");
  scaled.amp.dtype = DType::kFloat16;
  scaled.update.loss_scale = ops::LossScaleOptions{.dynamic = true};
  add("moments in 8 bits").update.state_dtype = optim::StateDType::kInt8;
  TinyRun& averaged = add("averages");
  averaged.update.average = ops::WeightAverageOptions{.decay = 0.75};
  averaged.evaluate = true;
  add("kept whole").checkpointing.reshard = false;
  add("a frozen block").frozen = {"block.1.*"};
  add("adapters").lora = {"*"};
  add("a snapshot beside").copy_after = 0;
  TinyRun& clipped = add("clipped by the last step");
  clipped.update.clip_grad_norm = 0.05;
  clipped.update.clip_by = optim::UpdateOptions::ClipBy::kLastStep;
  bool in_backward = false;
  for (auto& [name, run] : runs) {
    SCOPED_TRACE(name);
    run.update_in_backward = std::exchange(in_backward, !in_backward);
    ExpectSameAsOnDevice(run);
  }
}

TEST_F(HostGradientsOnRanks, KeepsTheBitsBesideTensorRanks) {
  for (const int64_t zero : {0, 1, 2, 3}) {
    for (const int64_t accumulate : {1, 2}) {
      SCOPED_TRACE(fmt::format("ZeRO {}, {} micro-steps", zero, accumulate));
      TinyRun run = Run(/*llama=*/false, zero);
      Use(run, 2);
      run.sequence_parallel = accumulate == 2;
      run.accumulate = accumulate;
      run.weights_on_host = run.state_on_host = run.gradients_on_host = true;
      run.update_in_backward = accumulate == 1;
      ExpectSameAsOnDevice(run);
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
