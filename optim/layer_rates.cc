#include "optim/layer_rates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/block.h"

namespace plimsoll::optim {

std::map<std::string, double> LayerRates(std::span<const std::string> names, double decay) {
  std::vector<std::string_view> blocks;  // in the order of the forward pass
  // The layer of each parameter: 0 before all blocks, i + 1 within block i, and one more than the
  // last block's after it. A parameter between two blocks has the layer of the earlier block.
  std::vector<size_t> layers;
  size_t last = 0;  // number of parameters up to the last one within a block
  for (const std::string& name : names) {
    const std::string_view block = graph::BlockIn(name);
    const auto known = std::ranges::find(blocks, block);
    layers.push_back(block.empty() ? blocks.size()
                                   : static_cast<size_t>(known - blocks.begin()) + 1);
    if (block.empty()) continue;
    if (known == blocks.end()) blocks.push_back(block);
    last = layers.size();
  }
  std::map<std::string, double> factors;
  if (blocks.empty()) return factors;
  for (size_t i = 0; i < names.size(); ++i) {
    const size_t layer = i < last ? layers[i] : blocks.size() + 1;
    factors[names[i]] = std::pow(decay, static_cast<double>(blocks.size() + 1 - layer));
  }
  return factors;
}

}  // namespace plimsoll::optim
