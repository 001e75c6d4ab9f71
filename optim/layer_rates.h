// Layer-wise learning-rate decay: rates that fall from a model's last layer to its first, for
// fine-tuning. Clark et al. 2020, "ELECTRA", section 3.1; Bao et al. 2022, "BEiT", appendix, whose
// numbers these are.
#pragma once

#include <map>
#include <span>
#include <string>

namespace plimsoll::optim {

// Factors of the learning rate, by parameter. `names` are a model's parameters in the order of its
// forward pass. With L blocks, block i counted from 0 has decay^(L − i), what comes before all
// blocks decay^(L + 1), and what comes behind the last one 1. Empty without blocks.
std::map<std::string, double> LayerRates(std::span<const std::string> names, double decay);

}  // namespace plimsoll::optim
