#include "tests/ops/example.h"

namespace plimsoll::ops {

std::vector<Example>& Examples() {
  static std::vector<Example> examples;
  return examples;
}

}  // namespace plimsoll::ops
