// Describes in words which activations a plan recomputes or offloads.
#pragma once

#include <span>
#include <string>

#include "memory/decision.h"

namespace plimsoll::trainer {

// The text, such as "blocks 0-7: recompute norm_1, norm_2, mlp.gelu; blocks 8-11: keep all". Names
// of a block's tensors omit the block's name. The text has at most about 900 characters for any
// model: long lists end in "and 9 more", and if blocks are treated in many different ways, only the
// most frequent treatments are listed.
std::string FatesText(std::span<const memory::Decision> decisions, const memory::Fates& fates);

}  // namespace plimsoll::trainer
