// This rank's shard of a vocabulary. An op whose table is sharded among the ranks of a mesh axis
// has the optional attribute "axis": its table has this rank's rows, for the tokens from rank ·
// rows on. Tokens and targets are numbered over the full vocabulary.
#pragma once

#include <cstdint>

#include "graph/attributes.h"
#include "ops/collectives/communicator.h"

namespace plimsoll::ops {

inline bool SplitsVocabulary(const graph::Attributes& attributes) { return attributes.Has("axis"); }

struct VocabularyShard {
  bool split;           // whether the attribute "axis" is set, even if the rank is the only one
  Communicator* ranks;  // nullptr if this rank is the only rank of the axis
  int64_t begin;        // this rank's first token
  int64_t rows;         // number of this rank's tokens
  int64_t whole;        // number of tokens of all ranks

  // `others`: the ranks of the axis (KernelCall::ranks).
  VocabularyShard(const graph::Attributes& attributes, Communicator* others, int64_t table_rows)
      : split(SplitsVocabulary(attributes)),
        ranks(others),
        begin(ranks != nullptr ? ranks->rank() * table_rows : 0),
        rows(table_rows),
        whole(ranks != nullptr ? ranks->size() * table_rows : table_rows) {}

  // Whether this is the first rank. It adds the terms that the sum over ranks must contain once.
  bool first() const { return ranks == nullptr || ranks->rank() == 0; }
  // The token's row of the table; outside [0, rows) for a token of another rank and for an invalid
  // token.
  int64_t Row(int64_t token) const { return token - begin; }
  bool Has(int64_t token) const { return token >= begin && token < begin + rows; }
};

}  // namespace plimsoll::ops
