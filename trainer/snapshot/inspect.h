// `plimsoll inspect`: what a snapshot holds, and whether it is whole.
#pragma once

#include <string>

namespace plimsoll::trainer {

// `path`: a snapshot, whose tensors are listed; or a run directory, for all of its snapshots.
// UserError that names the file and tensor after what is damaged.
void RunInspect(const std::string& path);

}  // namespace plimsoll::trainer
