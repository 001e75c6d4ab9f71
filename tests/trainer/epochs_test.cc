// The steps that epochs take follow from the batch of an update, however it is cut and dealt out.
#include "trainer/resolve/epochs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/temp_folder.h"
#include "trainer/config/load.h"

namespace plimsoll::trainer {
namespace {

TEST(CountEpochs, WhateverCutsAGivenBatch) {
  const TempFolder folder;
  folder.Write("text", std::string(16 * 64 + 1, 'a'));  // 63 sequences of 16 tokens
  const std::string text =
      "model: {family: llama, layers: 1, width: 16, heads: 2, sequence: 16}\n"
      "data: {train: " +
      folder / "text" +
      ", format: text, tokenizer: byte}\n"
      "train: {epochs: 2, global_batch: 8, micro_batch: 2}\n"
      "memory: {budget: 1GiB}\n";
  struct Case {
    std::vector<std::string> sets;
    int64_t ranks;
  };
  for (const Case& c :
       {Case{{}, 1}, Case{{}, 2}, Case{{"parallel=auto"}, 1}, Case{{"parallel=auto"}, 2},
        Case{{"train.micro_batch=auto"}, 2}, Case{{"parallel=auto", "train.micro_batch=auto"}, 2},
        Case{{"parallel=auto", "train.global_batch=null", "train.global_batch_tokens=128"}, 2}}) {
    config::Loaded loaded = config::LoadText(text, "run.yaml", c.sets, c.ranks);
    CountEpochs(loaded, c.ranks);
    EXPECT_EQ(loaded.config.train.steps_per_epoch, 63 / 8.) << testing::PrintToString(c.sets);
    EXPECT_EQ(loaded.config.train.steps, 16) << testing::PrintToString(c.sets) << c.ranks;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
