// Counts the linear layers of a step that multiply 8-bit codes (amp.fp8), and gives the reasons why
// other layers don't, so that layers that keep 16 bits by mistake are visible.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// The products of a micro-step with the weights of linear layers, forward and backward, without
// recomputed products. The head's loss counts as one product, whatever ops it consists of.
struct CodeProducts {
  int64_t all = 0;
  int64_t of_codes = 0;  // products of 8-bit codes
  // Maps a reason to the number of products that are not of codes.
  std::map<std::string, int64_t> others;
  // The number of activation functions' inputs kept as codes, if the configuration asks for codes.
  std::optional<int64_t> pre_activations = {};
};
CodeProducts CountCodeProducts(const CompiledStep& compiled);

// "8-bit products: 84 of 87 a micro-step (the head stays in 16 bits: 1; amp.fp8.skip: 2)".
// If the configuration asks for 8-bit pre-activations, adds their number.
std::string Text(const CodeProducts& products);

// {"all": 87, "eight_bit": 84, "others": {"amp.fp8.skip": 2, …}, "pre_activations": 0}
nlohmann::ordered_json CodeProductsJson(const CodeProducts& products);

}  // namespace plimsoll::trainer
