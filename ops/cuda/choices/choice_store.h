// This process's measured choices of one kind on one device, and the file in which later runs find
// them: the same problem gets the same way in every run, and so the same bits.
//
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
#include <optional>
#include <string>

#include "base/function_ref.h"

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

class ChoiceStore {
 public:
  // `kind`: how the file's name begins; the rest is the device. Reads the file, where
  // ChoiceOptions allow one; warns of one that can't be used.
  ChoiceStore(const std::string& kind, const std::string& title, const std::string& device);

  // The way that is known for the problem, if it is `accepted`, else the one that `measure` finds,
  // which is kept. Ranks of one host may measure at the same time and find different ways the
  // fastest: all take the one that was stored first, so that this run has the same bits as the
  // next. nullopt when `measure` finds none.
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
