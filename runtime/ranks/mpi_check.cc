#include "runtime/ranks/mpi_check.h"

#include <fmt/format.h>

#include <string_view>

#include "base/error.h"
#include "runtime/ranks/mpi_library.h"

namespace plimsoll::runtime {

void CheckMpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  Mpi().Error_string(status, text, &length);
  throw InternalError(fmt::format("{}: {}", call, std::string_view(text, length)));
}

}  // namespace plimsoll::runtime
