// This process's measured choices of one kind on one device, and the file in which later runs find
// them (ops/cuda/choices/choice_file.h): the same problem gets the same way in every run, and so
// the same bits.
#pragma once

#include <optional>
#include <string>

#include "base/function_ref.h"
#include "ops/cuda/choices/choice_file.h"

namespace plimsoll::ops {

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

  ChoiceFile file_;  // its path is empty when there is none
  Choices choices_;
  bool warned_ = false;  // that the file can't be written
};

}  // namespace plimsoll::ops
