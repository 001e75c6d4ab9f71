// `plimsoll inspect`: lists the contents of a snapshot, and checks that it is undamaged.
#pragma once

#include <string>

namespace plimsoll::trainer {

// `path` is a snapshot, whose tensors are listed, or a run directory, whose snapshots are listed.
// Throws a UserError that names the damaged file and tensor.
void RunInspect(const std::string& path);

}  // namespace plimsoll::trainer
