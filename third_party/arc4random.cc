// glibc has arc4random since 2.36, and Debian's static C++ library asks for it in
// std::random_device. A definition in the program lets it run with an older glibc.
#include <stdint.h>
#include <unistd.h>

extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  uint32_t number = 0;
  if (getentropy(&number, sizeof(number)) != 0) __builtin_trap();
  return number;
}
