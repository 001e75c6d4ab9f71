// Key-value caching as a pass on a model's forward program: the program then handles the next W
// tokens of each text, given those before.
//
//   attention(qkv)                  →  attention_cached(qkv, SCOPE.keys, SCOPE.values, position)
//   embedding(tokens, table, wpe)   →  embedding(tokens, table, wpe, position)
//   rotary(qkv)                     →  rotary(qkv, position)
//
// Ops declare by which op they are replaced, and which of their inputs takes the position
// (graph::Continuation). `position`, i32[1], is an input slot: the position of the first of the W
// tokens. SCOPE.keys and SCOPE.values [R,G,capacity,hd] are carried (Role::kState): programs with
// other W that run on the same texts share them by name. Attention must be causal and without
// dropout, as in inference.
#pragma once

#include <cstdint>

#include "graph/pass.h"

namespace plimsoll::inference {

class KvCache : public graph::Pass {
 public:
  // `capacity`: tokens of a text for which the cache has room; at least as many as the program
  // processes at once.
  explicit KvCache(int64_t capacity) : capacity_(capacity) {}
  std::string_view name() const override { return "kv_cache"; }
  graph::Contract contract() const override {
    return {.needs = {graph::Fact::kTyped},
            .gives = {graph::Fact::kCached},
            .spoils = graph::FactsFrom(graph::Fact::kDifferentiated)};
  }
  graph::PassResult Run(graph::Program& program) override;

 private:
  int64_t capacity_;
};

}  // namespace plimsoll::inference
