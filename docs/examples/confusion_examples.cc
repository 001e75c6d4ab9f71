#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleRegistration kConfusion({.op = "confusion",
                                      .label = "",
                                      .inputs = {{{4, 7, 3}}, {{4, 7}, Fill::kTargets, 3}}});

}  // namespace
}  // namespace plimsoll::ops
