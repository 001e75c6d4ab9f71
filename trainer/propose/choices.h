// The keys of a run file to start from: those of the file that it begins with, and choices made for
// its device and budget, each with a reason.
#pragma once

#include <map>
#include <string>

#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

class Choices {
 public:
  // `base` outlives the object.
  explicit Choices(const config::RunConfig& base) : base_(base) {}

  // Gives a key a value instead of the base's. Has no effect where --set gives the key: what
  // somebody asks for is never chosen otherwise. `why` is a comment before the key; "": none.
  void Set(const std::string& key, const std::string& value, const std::string& why = "");
  void Remove(const std::string& key) { made_.erase(key); }
  // Whether the file will have the key: chosen, or kept from the base.
  bool Has(const std::string& key) const { return made_.contains(key) || Keeps(key); }
  // Whether the base's value stays unless another is chosen: keys that follow from the device and
  // the budget, such as amp.dtype, stay only where --set gives them.
  bool Keeps(const std::string& key) const;
  // Whether --set gives the key.
  bool IsAsked(const std::string& key) const;

  // The run file, its keys in the order of the schema.
  std::string Text() const;
  const config::RunConfig& base() const { return base_; }

 private:
  struct Choice {
    std::string value, why;
  };
  const config::RunConfig& base_;
  std::map<std::string, Choice> made_;
};

// A comment of a run file, in lines that fit a page.
std::string Comment(const std::string& text, const std::string& indent);

}  // namespace plimsoll::trainer
