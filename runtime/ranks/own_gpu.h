// One GPU for each rank of a host.
#pragma once

namespace plimsoll::runtime {

// Makes only this rank's GPU visible to CUDA, so that no other GPU gets a context of this process:
// of the visible GPUs, the one with this rank's number. Call it before anything uses CUDA. If a
// launcher has given the rank a single GPU, that is the one; a rank without a GPU left sees none.
void ChooseOwnGpu(int local_rank, int local_size);

}  // namespace plimsoll::runtime
