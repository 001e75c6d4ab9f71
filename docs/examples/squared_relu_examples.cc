#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  // 105 elements: no multiple of a vector.
  squared_relu([3,7,5])
  squared_relu_backward([3,7,5], [3,7,5])
)");

}  // namespace
}  // namespace plimsoll::ops
