// A file of measured choices: of several ways to solve a problem, the one that was the fastest on a
// device, with a version of a library. Text, one line per problem:
//
//   plimsoll matrix products 4                                  the title: which problems, and the
//                                                               version of the format
//   NVIDIA H200, compute capability 9.0, 132 multiprocessors, cublasLt 130100      the device
//   KEY WAY MICROSECONDS                                        two words and a time
//   checksum 0123456789abcdef                                   of all lines before, FNV-1a
#pragma once

#include <functional>
#include <map>
#include <string>

namespace plimsoll::ops {

struct Choice {
  std::string way;  // without spaces
  double microseconds;
};

// Sorted by the problems' keys, which contain no spaces.
using Choices = std::map<std::string, Choice, std::less<>>;

struct ChoiceFile {
  std::string path;
  std::string title;
  std::string device;
};

// Empty when there is no file. Throws a UserError naming the file when it has another title, is for
// another device, or is damaged.
Choices ReadChoices(const ChoiceFile& file);

// Replaces the file, or leaves it unchanged on a UserError; creates its folder.
void WriteChoices(const ChoiceFile& file, const Choices& choices);

}  // namespace plimsoll::ops
