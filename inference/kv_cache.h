// Key-value caching as a pass on a model's forward program: the program then handles the next W
// tokens of each text, given those before.
//
//   attention(qkv)                  →  attention_cached(qkv, SCOPE.keys, SCOPE.values, position)
//   embedding(tokens, table, wpe)   →  embedding(tokens, table, wpe, position)
//   rotary(qkv)                     →  rotary(qkv, position)
//
// Which op becomes what, and which of its inputs takes the position, ops declare
// (graph::Continuation). `position`, i32[1], is an input slot: the position of the first of the W
// tokens. SCOPE.keys and SCOPE.values [R,G,capacity,hd] are carried (Role::kState): programs with
// other W that run on the same texts share them by name. Attention must be causal and without
// dropout, as inference is.
#pragma once

#include <cstdint>

#include "graph/pass.h"

namespace plimsoll::inference {

class KvCache : public graph::Pass {
 public:
  // Tokens of a text that the cache has room for; at least as many as the program handles at once.
  explicit KvCache(int64_t capacity) : capacity_(capacity) {}
  std::string_view name() const override { return "kv_cache"; }
  graph::PassResult Run(graph::Program& program) override;

 private:
  int64_t capacity_;
};

}  // namespace plimsoll::inference
