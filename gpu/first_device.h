// The GPU that this process uses.
#pragma once

namespace plimsoll::gpu {

// Makes the first GPU that CUDA shows current for this thread, which also makes a context. Throws a
// UserError that says what to do when there is no driver, no GPU, a driver too old, or no code in
// this build for that GPU.
void UseFirstDevice();

}  // namespace plimsoll::gpu
