// The part of a vocabulary that is this rank's. An op whose table is split among the ranks of an
// axis of the mesh says so by the optional attribute "axis": the table has this rank's rows, those
// of the tokens from rank · rows on. Tokens and targets number the whole vocabulary.
#pragma once

#include <cstdint>

#include "graph/attributes.h"
#include "ops/communicator.h"

namespace plimsoll::ops {

inline bool SplitsVocabulary(const graph::Attributes& attributes) { return attributes.Has("axis"); }

struct VocabularyShard {
  bool split;           // by the attribute, be it on a rank that is alone
  Communicator* ranks;  // nullptr: no others
  int64_t begin;        // the first token that is this rank's
  int64_t rows;         // so many are
  int64_t whole;        // those of all ranks

  // `others`: the ranks of the axis (KernelCall::ranks).
  VocabularyShard(const graph::Attributes& attributes, Communicator* others, int64_t table_rows)
      : split(SplitsVocabulary(attributes)),
        ranks(others),
        begin(ranks != nullptr ? ranks->rank() * table_rows : 0),
        rows(table_rows),
        whole(ranks != nullptr ? ranks->size() * table_rows : table_rows) {}

  // Is this the first rank, which adds what shall be in the sum over ranks once?
  bool first() const { return ranks == nullptr || ranks->rank() == 0; }
  // The token's row of the table; when it is another rank's, or none: outside [0, rows).
  int64_t Row(int64_t token) const { return token - begin; }
  bool Has(int64_t token) const { return token >= begin && token < begin + rows; }
};

}  // namespace plimsoll::ops
