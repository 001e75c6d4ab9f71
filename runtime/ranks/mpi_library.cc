#include "runtime/ranks/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>

#include "base/error.h"

namespace plimsoll::runtime {
namespace {

// The MPI library of Open MPI 3 to 5, and of later versions with the same binary interface.
constexpr const char* kLibrary = "libmpi.so.40";

void* Load() {
  // RTLD_GLOBAL: Open MPI's plugins look for its symbols in the process.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (library != nullptr) return library;
  throw UserError(fmt::format(
      "mpirun: several ranks were started, and Open MPI's library cannot be loaded ({}); install "
      "Open MPI, or add the folder of its {} to LD_LIBRARY_PATH",
      dlerror(), kLibrary));
}

}  // namespace

const MpiLibrary& MpiLibrary::Get() {
  static const MpiLibrary library;
  return library;
}

MpiLibrary::MpiLibrary() : library_(Load()) {}

MpiLibrary::Symbol MpiLibrary::Find(const char* name) const {
  void* const address = dlsym(library_, name);
  if (address == nullptr) {
    throw UserError(
        fmt::format("mpirun: the library {} is not Open MPI's: it has no {}; launch with Open MPI",
                    kLibrary, name));
  }
  return {address};
}

void CheckMpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  Mpi().Error_string(status, text, &length);
  throw InternalError(fmt::format("{}: {}", call, std::string_view(text, length)));
}

}  // namespace plimsoll::runtime
