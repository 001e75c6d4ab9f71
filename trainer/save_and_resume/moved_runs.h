// Where elements of a tensor go when another number of tensor ranks shares it.
#pragma once

#include <cstdint>
#include <vector>

#include "models/huggingface.h"
#include "models/sharding.h"

namespace plimsoll::trainer {

// Neighbours in the part that was saved and in the part that a rank has now.
struct MovedRun {
  int64_t from = 0, to = 0;  // in these
  int64_t elements = 0;

  int64_t from_end() const { return from + elements; }
};

struct PartOf {
  const models::SplitParameter* split = nullptr;  // nullptr: the part is the whole tensor
  int64_t rank = 0;
};

// What `saved` has of those elements of `now` that are `wanted`, in order of both parts.
// `elements`: of the whole tensor.
std::vector<MovedRun> MovedRuns(PartOf saved, PartOf now, int64_t elements,
                                models::ElementRange wanted);

}  // namespace plimsoll::trainer
