// This process's measured choices of one kind on one device, and the file in which later runs find
// them: the same problem gets the same way in every run, and so the same bits.
//
// The file stores, for each problem, the way that was the fastest of several on a device, with a
// version of a library. Text, one line per problem:
//
//   plimsoll matrix products 4                                  the title: which problems, and the
//                                                               version of the format
//   NVIDIA H200, compute capability 9.0, 132 multiprocessors, cublasLt 130100      the device
//   KEY WAY MICROSECONDS                                        two words and a time
//   checksum 0123456789abcdef                                   of all lines before, FNV-1a
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/function_ref.h"

namespace plimsoll::ops {

struct Choice {
  std::string way;  // without spaces
  double microseconds;
};

// Choices by the key of their problem. Keys contain no spaces.
using Choices = std::map<std::string, Choice, std::less<>>;

struct ChoiceFile {
  std::string path;
  std::string title;
  std::string device;
};

// Reads the file; returns an empty map if it does not exist. Throws a UserError that names the file
// when it has another title, is for another device, or is damaged.
Choices ReadChoices(const ChoiceFile& file);

// Replaces the file, and creates its folder. On a UserError the file is unchanged.
void WriteChoices(const ChoiceFile& file, const Choices& choices);

class ChoiceStore {
 public:
  // `kind`: the beginning of the file's name, which the device completes. Reads the file, if
  // ChoiceOptions allow that; warns if it can't be used.
  ChoiceStore(const std::string& kind, const std::string& title, const std::string& device);

  // The known way for the problem, if it is `accepted`; else the way that `measure` finds, which is
  // then stored. Ranks of one host may measure at the same time and find different ways to be the
  // fastest: all use the one that was stored first, so that this run has the same bits as the next.
  // nullopt when `measure` finds no way.
  std::optional<std::string> Choose(const std::string& key,
                                    FunctionRef<bool(const std::string& way)> accepted,
                                    FunctionRef<std::optional<Choice>()> measure);

 private:
  Choice Keep(const std::string& key, const Choice& fastest,
              FunctionRef<bool(const std::string& way)> accepted);

  ChoiceFile file_;  // the stored choices; the path is empty if there is no file
  Choices choices_;
  bool warned_ = false;  // whether the user was warned that the file can't be written
};

}  // namespace plimsoll::ops
