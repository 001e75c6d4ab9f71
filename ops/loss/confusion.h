// What a classifier takes for what.
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

// Of rows that have a label; a negative one is none.
struct Confusion {
  graph::Value counts;  // i32[C,C]: rows of the class [label] whose largest logit is [class]
  graph::Value right;   // i32[]: on the diagonal
  graph::Value rows;    // i32[]: all of them
};

// logits[...,C], labels i32[...] < C. Of equal logits the first is the largest.
Confusion Confuse(graph::Builder& g, graph::Value logits, graph::Value labels,
                  std::string_view name = "");

}  // namespace plimsoll::ops
