// A run's text, and what it means.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/load.h"

namespace plimsoll::config {

inline const std::string kModel =
    "model: {family: gpt2, layers: 2, width: 64, heads: 4, vocab: 256, sequence: 32}\n";
inline const std::string kBase = kModel + "data: {synthetic: true}\n";

inline RunConfig Parse(const std::string& text, const std::vector<std::string>& sets = {},
                       int64_t ranks = 1) {
  return LoadText(text, "run.yaml", sets, ranks).config;
}

inline void ExpectEqual(const RunConfig& a, const RunConfig& b) {
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.data, b.data);
  EXPECT_EQ(a.train, b.train);
  EXPECT_EQ(a.optimizer, b.optimizer);
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.amp, b.amp);
  EXPECT_EQ(a.checkpointing, b.checkpointing);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_EQ(a.parallel, b.parallel);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.run, b.run);
  EXPECT_EQ(a.save, b.save);
  EXPECT_EQ(a.divergence, b.divergence);
  EXPECT_EQ(a.sample, b.sample);
  EXPECT_EQ(a.debug, b.debug);
}

// The resolved configuration loads to itself.
inline void ExpectRoundTrip(const Loaded& loaded) {
  const Loaded again = LoadText(loaded.resolved_yaml, "resolved.yaml");
  ExpectEqual(again.config, loaded.config);
  EXPECT_EQ(again.resolved_yaml, loaded.resolved_yaml);
  EXPECT_TRUE(again.warnings.empty());
}

}  // namespace plimsoll::config
