// The text form of programs: used in dumps, golden tests and bug reports. ToText and ParseProgram
// are inverse.
//
//   program train
//     tensor %x: f32[4,8] input persistent
//     tensor %w: f32[16,8] parameter persistent
//   forward
//     %y: f32[4,16] = linear(%x, %w, _) @fc
//   backward
//     %dx: f32[4,8] = linear_dx(%dy, %w) {factor=0.5} @fc !autodiff using %scratch: i32[64]
//     workspace
//
// A tensor's type, its role (kActivation by default), "persistent", "of %owner as moment", "merged
// MICRO_STEPS, RANKS", "names CHECKSUM", "host" and "view %base+BYTES" are written where the tensor
// first appears. The nodes of a program's second micro-step begin with "forward 1". A view of a
// rank's own part is "view %base+own", or "+own(AXIS)" where the axis is not data. "_" is an absent
// argument, @ precedes the scope, ! the pass that made the node; "uncounted" (Node::uncounted)
// follows them.
#pragma once

#include <string>
#include <string_view>

#include "graph/attributes.h"
#include "graph/program.h"

namespace plimsoll::graph {

std::string ToText(const Program& program);
std::string ToText(const Attributes& attributes);  // "{factor=0.5}"; empty if there are no
                                                   // attributes

// Throws UserError "SOURCE:LINE: reason" on malformed text. The resulting program may still be
// invalid: call Verify.
Program ParseProgram(std::string_view text, std::string_view source = "program");

}  // namespace plimsoll::graph
