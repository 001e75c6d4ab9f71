// How many of a step's linear layers multiply 8-bit codes (amp.fp8), and why others don't: a region
// that is meant to have 8 bits and keeps 16 is to be seen.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// Products of a micro-step with the weights of linear layers, forward and backward, without those
// that are computed again. The head's loss is one, whatever it consists of.
struct CodeProducts {
  int64_t all = 0;
  int64_t of_codes = 0;                   // of 8-bit codes
  std::map<std::string, int64_t> others;  // by the reason
  // Inputs of activation functions that are kept as codes, where they are asked for.
  std::optional<int64_t> pre_activations = {};
};
CodeProducts CountCodeProducts(const CompiledStep& compiled);

// "8-bit products: 84 of 87 a micro-step (the head stays in 16 bits: 1; amp.fp8.skip: 2)", and
// ", pre-activations in 8 bits: 12" where they are asked for.
std::string Text(const CodeProducts& products);

// {"all": 87, "eight_bit": 84, "others": {"amp.fp8.skip": 2, …}, "pre_activations": 0}
nlohmann::ordered_json CodeProductsJson(const CodeProducts& products);

}  // namespace plimsoll::trainer
