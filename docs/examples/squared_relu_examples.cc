#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

// 105 elements: no multiple of a vector.
const ExampleRegistration kForward({.op = "squared_relu", .label = "", .inputs = {{{3, 7, 5}}}});
const ExampleRegistration kBackward({.op = "squared_relu_backward",
                                     .label = "",
                                     .inputs = {{{3, 7, 5}}, {{3, 7, 5}}}});

}  // namespace
}  // namespace plimsoll::ops
