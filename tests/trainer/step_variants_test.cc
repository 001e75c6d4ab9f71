// The drafts of a run's alternatives: what is known of them before they are made.
#include "trainer/resolve/step_variants.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/trainer/tiny_session.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

class OpenRuns : public testing::TestWithParam<const char*> {};

// The draft of one alternative tells what stays on the device of others, whose batch is cut
// otherwise or that do other things with gradients.
TEST_P(OpenRuns, SayWhatStaysOnTheDevice) {
  config::RunConfig open =
      LoadRunText(
          std::string(GetParam()) +
              "data: {synthetic: true}\n"
              "train: {micro_batch: auto, global_batch: 8, eval_every: 0, blocks_first: auto}\n"
              "checkpointing: {policy: auto}\n"
              "device: cuda\n"
              "memory: {weights: auto, gradients: auto, calibrate: false, "
              "budget: 1GiB}\n",
          "run.yaml")
          .config;
  open.planned_gpu = "h200";
  const auto model = ModelFrom(open);
  const StepVariants variants(open, *model, *PlanningThreads());
  EXPECT_GT(variants.size(), 20u);
  std::set<int64_t> bytes;
  for (size_t i = 0; i < variants.size(); ++i) {
    EXPECT_EQ(variants.LeastDeviceBytes(i), variants.Draft(i)->OnDevice().all)
        << ChoicesText(open, variants.config(i));
    bytes.insert(variants.LeastDeviceBytes(i));
  }
  EXPECT_GE(bytes.size(), 4u);
}

INSTANTIATE_TEST_SUITE_P(
    Models, OpenRuns,
    testing::Values(
        "model: {family: llama, layers: 8, width: 192, heads: 4, kv_heads: 2, ffn_width: 512, "
        "vocab: 512, sequence: 16}\n"
        "optimizer: {place: auto, in_backward: auto, clip_grad_norm: 0}\n",
        "model: {family: gpt2, layers: 8, width: 192, heads: 4, vocab: 512, sequence: 16}\n"
        "amp: {dtype: bf16}\n"
        "optimizer: {place: auto, ema: 0.99}\n",
        "model: {family: llama, layers: 8, width: 192, heads: 4, kv_heads: 2, ffn_width: 512, "
        "vocab: 512, sequence: 16}\n"
        "lora: {rank: 4}\n"
        "optimizer: {place: auto}\n"
        "amp: {dtype: bf16}\n"),
    [](const auto& info) {
      return std::string(info.index == 0 ? "Llama" : info.index == 1 ? "Gpt2Ema" : "Adapters");
    });

}  // namespace
}  // namespace plimsoll::trainer
