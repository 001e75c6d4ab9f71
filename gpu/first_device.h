// The GPU that this process uses: the first visible one.
#pragma once

namespace plimsoll::gpu {

// Makes the first GPU that CUDA shows current for this thread, which also makes a context. Throws a
// UserError that says what to do if there is no driver, no GPU, a driver too old, or no code in
// this build for that GPU.
void UseFirstDevice();

}  // namespace plimsoll::gpu
