// What a candidate plan does with the activations, in a few words.
#pragma once

#include <span>
#include <string>

#include "memory/solver.h"

namespace plimsoll::trainer {

// "blocks 0-7: recompute norm_1, norm_2, mlp.gelu; blocks 8-11: keep all". A block's tensors are
// named without the block. At most some 900 characters, whatever the model: long lists end in
// "and 9 more", and where blocks are treated in many ways the most frequent ones are told.
std::string DescribeAssignment(std::span<const memory::Decision> decisions,
                               const memory::Assignment& assignment);

}  // namespace plimsoll::trainer
