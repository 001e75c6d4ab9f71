// A product of low rank, added to columns of a matrix: the term that an adapter adds to a linear
// layer. Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.
//
//   add_low_rank      out = y, and in each range i of columns   + scale · u_i · b_iᵀ
//   add_low_rank_du   du_i = scale · dy[columns of i] · b_i
//   add_low_rank_db   db_i = scale · dy[columns of i]ᵀ · u_i (+ acc)
//
// y[...,N] has ranges of columns, n_1, n_2, … wide, each with its own factor: u[...,m·r] holds u_1
// … u_m next to each other, b[n_1+n_2+…,r] holds b_1 … b_m one above the other. Columns in no range
// are copied from y. out may have y's memory; then only the ranges are accessed. y, u and b have
// one float dtype; db and acc have its compute type. Products of 16-bit values are summed in
// float32 and rounded once, after y or acc is added. tf32 as in ops/linear/linear.h. Errors:
// InternalError on shapes that do not fit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "graph/attributes.h"
#include "graph/builder.h"

namespace plimsoll::ops {

struct ColumnRange {
  int64_t first;
  int64_t columns;

  bool operator==(const ColumnRange&) const = default;
};

// `columns` is in the order of the parts of u and b.
graph::Value AddLowRank(graph::Builder& g, graph::Value y, graph::Value u, graph::Value b,
                        const std::vector<ColumnRange>& columns, double scale,
                        std::string_view name = "");

// The value of the attribute "columns", a word such as "0+64 96+32".
std::string ColumnsWord(const std::vector<ColumnRange>& columns);
// Calls visit(number of the range, its first row in b, range). Allocates nothing.
void ForColumnRanges(const graph::Attributes& attributes,
                     FunctionRef<void(int64_t, int64_t, ColumnRange)> visit);
std::vector<ColumnRange> ColumnRanges(const graph::Attributes& attributes);

}  // namespace plimsoll::ops
