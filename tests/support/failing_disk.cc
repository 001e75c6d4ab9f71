// A failing disk, for a program that is started with this library in LD_PRELOAD. It fails for files
// within folders named "snapshots", in the way that FAILING_DISK says:
//
//   room=BYTES   accepts so many bytes in all, the last of them in a short write; then ENOSPC
//   short        accepts only a part of most writes, and interrupts others
//   readonly     lets nothing be created, renamed or removed
//   sync         cannot sync: EIO
//
// With FAILING_DISK_RANK, it fails only on that rank of an mpirun.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::string_view Way() {
  const char* way = std::getenv("FAILING_DISK");
  const char* failing = std::getenv("FAILING_DISK_RANK");
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool here = failing == nullptr || (rank != nullptr && std::strcmp(rank, failing) == 0);
  return way != nullptr && here ? way : "";
}

bool Fails(std::string_view way, std::string_view path) {
  return Way().starts_with(way) && path.find("/snapshots") != path.npos;
}

bool Fails(std::string_view way, int file) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = readlink(link.c_str(), path, sizeof(path));
  return length > 0 && Fails(way, std::string_view(path, static_cast<size_t>(length)));
}

int Fail(int error) {
  errno = error;
  return -1;
}

std::atomic<size_t> taken = 0;    // bytes
std::atomic<unsigned> calls = 0;  // of write

}  // namespace

extern "C" {

ssize_t write(int file, const void* bytes, size_t size) {
  static const auto next = Next<ssize_t (*)(int, const void*, size_t)>("write");
  if (Fails("room=", file)) {
    const size_t room = std::strtoull(Way().substr(5).data(), nullptr, 10);
    const size_t before = taken.fetch_add(size);
    if (before >= room) return Fail(ENOSPC);
    if (room - before < size) size = room - before;
  } else if (Fails("short", file)) {
    const unsigned call = calls++;
    if (call % 5 == 3) return Fail(EINTR);
    if (call % 5 != 4 && size > 1) size = 1 + (call * 2654435761u) % (size - 1);
  }
  return next(file, bytes, size);
}

int open(const char* path, int flags, ...) {
  static const auto next = Next<int (*)(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if ((flags & O_CREAT) != 0 && Fails("readonly", path)) return Fail(EROFS);
  return next(path, flags, mode);
}

int mkdir(const char* path, mode_t mode) {
  static const auto next = Next<int (*)(const char*, mode_t)>("mkdir");
  return Fails("readonly", path) ? Fail(EROFS) : next(path, mode);
}

int rename(const char* from, const char* to) {
  static const auto next = Next<int (*)(const char*, const char*)>("rename");
  return Fails("readonly", to) ? Fail(EROFS) : next(from, to);
}

int fsync(int file) {
  static const auto next = Next<int (*)(int)>("fsync");
  return Fails("sync", file) ? Fail(EIO) : next(file);
}

}  // extern "C"
