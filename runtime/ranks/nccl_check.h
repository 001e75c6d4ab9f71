// Checks the result of every call of NCCL.
#pragma once

#include <nccl.h>

namespace plimsoll::runtime {

// Does nothing on success; otherwise throws an InternalError with the call's name ("ncclAllReduce")
// and NCCL's message. `comm` is the communicator of the call, if any.
void CheckNccl(ncclResult_t status, const char* call, ncclComm_t comm = nullptr);

}  // namespace plimsoll::runtime
