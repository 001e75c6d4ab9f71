// Layer-wise learning-rate decay: rates that fall from a model's last layer to its first, for
// fine-tuning. Clark et al. 2020, "ELECTRA", section 3.1; Bao et al. 2022, "BEiT", appendix, whose
// numbering of layers is used here.
#pragma once

#include <map>
#include <span>
#include <string>

namespace plimsoll::optim {

// Factors of the learning rate, by parameter. `names` are a model's parameters in the order of its
// forward pass. With L blocks, the parameters of block i (from 0) have the factor decay^(L − i),
// parameters before all blocks decay^(L + 1), and parameters after the last block 1. The result is
// empty if the model has no blocks.
std::map<std::string, double> LayerRates(std::span<const std::string> names, double decay);

}  // namespace plimsoll::optim
