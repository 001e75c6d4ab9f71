// Implements gpu/installation.h in builds without CUDA.
#include "gpu/installation.h"

namespace plimsoll::gpu {

Installation FindInstallation() { return {}; }

const char* BuiltArchitectures() { return ""; }

std::string FirstBusId() { return ""; }

}  // namespace plimsoll::gpu
