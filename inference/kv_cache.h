// KvCache, a pass that adds key-value caches to a model's forward program. The program then
// processes the next W tokens of each text, given the cached ones.
//
//   attention(qkv)                  →  attention_cached(qkv, SCOPE.keys, SCOPE.values, position)
//   embedding(tokens, table, wpe)   →  embedding(tokens, table, wpe, position)
//   rotary(qkv)                     →  rotary(qkv, position)
//
// An op declares the op that replaces it, and which input of that op takes the position
// (graph::Continuation). `position`, i32[1], is an input slot: the position of the first of the W
// tokens. SCOPE.keys and SCOPE.values [R,G,capacity,hd] keep their values between runs
// (Role::kState); programs with another W that run on the same texts share them by name. Attention
// must be causal and without dropout, as in inference.
#pragma once

#include <cstdint>

#include "graph/pass.h"

namespace plimsoll::inference {

class KvCache : public graph::Pass {
 public:
  // `capacity`: the number of tokens of a text that the cache can hold; at least the number that
  // the program processes at once.
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
