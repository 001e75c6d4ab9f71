// `plimsoll inspect`: the contents of a snapshot, and whether it is undamaged.
#pragma once

#include <string>

namespace plimsoll::trainer {

// `path`: a snapshot, whose tensors are listed; or a run directory, for all of its snapshots.
// UserError that names the damaged file and tensor.
void RunInspect(const std::string& path);

}  // namespace plimsoll::trainer
