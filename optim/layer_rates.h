// Layer-wise learning-rate decay: rates that fall from a model's last layer to its first, for
// fine-tuning. Clark et al. 2020, "ELECTRA", section 3.1; Bao et al. 2022, "BEiT", appendix, whose
// numbers these are.
#pragma once

#include <map>
#include <span>
#include <string>

namespace plimsoll::optim {

// Factors of the learning rate, by parameter. `names` are a model's parameters in the order of its
// forward pass. With L blocks, block i (from 0) has decay^(L − i). Parameters before all blocks
// have decay^(L + 1), those after the last block 1. Empty if the model has no blocks.
std::map<std::string, double> LayerRates(std::span<const std::string> names, double decay);

}  // namespace plimsoll::optim
