// One GPU for each rank of a host.
#pragma once

namespace plimsoll::runtime {

// Leaves to CUDA only the GPU that is this rank's, the one of its number among those that are
// visible, so that no other gets a context of this process. Before anything asks CUDA. Where a
// launcher has given the rank a single GPU, that is the one; a rank for which there is none left
// sees none.
void ChooseOwnGpu(int local_rank, int local_size);

}  // namespace plimsoll::runtime
