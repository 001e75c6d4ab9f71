// Examples of ops for generating text.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

// kCounter sets the position to 3.
const ExampleRegistration kCached(
    {.op = "attention_cached",
     .label = "a window of 4",
     .inputs = {{{2, 4, 24}}, {{2, 2, 9, 4}}, {{2, 2, 9, 4}}, {{1}, Fill::kCounter}},
     .attributes = {{"heads", int64_t{2}}, {"kv_heads", int64_t{2}}}});
const ExampleRegistration kCachedGroups(
    {.op = "attention_cached",
     .label = "one token, 2 of 6 kv heads, full cache",
     .inputs = {{{3, 1, 110}}, {{3, 2, 4, 11}}, {{3, 2, 4, 11}}, {{1}, Fill::kCounter}},
     .attributes = {{"heads", int64_t{6}}, {"kv_heads", int64_t{2}}}});

}  // namespace
}  // namespace plimsoll::ops
