// Values of run-file keys that a study file gives.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/config/overrides.h"
#include "trainer/config/schema.h"

namespace plimsoll::studies {

// The settings in a map of sections or dotted keys (`amp: {dtype: bf16}` or `amp.dtype: bf16`).
// Each is checked against the run file's schema. `where` names the map in messages: "variants.all".
// Keys that a study sets itself (run.dir, …) are refused.
config::KeyTrees ReadSettings(const config::Tree& map, const std::string& where);

// Traverses a map as ReadSettings does: calls `leaf` for each key of the run file's schema in the
// map.
using Leaf = std::function<void(const config::Key& key, const config::TreeEntry& entry)>;
void ForEachKey(const config::Tree& map, const std::string& where, const Leaf& leaf);

// `settings` overridden by those of `layer`.
config::KeyTrees Overlaid(const config::KeyTrees& settings, const config::KeyTrees& layer);

// The values of an axis: a list, one value, or a range {from, to, step | count | times}.
std::vector<config::Tree> ReadValues(const config::Key& key, const config::Tree& value,
                                     const std::string& where);

// The following throw UserErrors about the key `path` that was given at `origin`: "study.yaml:3:
// axes.amp: REASON".
[[noreturn]] void RefuseAt(const std::string& origin, const std::string& path,
                           const std::string& reason);
// Throws because the key is unknown; `command` lists the existing keys.
[[noreturn]] void RefuseUnknown(const std::string& origin, const std::string& path,
                                const std::string& nearest, const std::string& command);
// Throws unless the value is of kind `kind`; `expected` names that kind in the message.
void RequireKind(config::Tree::Kind kind, const std::string& expected, const std::string& origin,
                 const std::string& path, const config::Tree& value);

// The argument of --set that sets the key to this value: "amp.dtype=bf16".
std::string SetArgument(const std::string& key, const config::Tree& value);
// The arguments of --set for these keys and values.
std::vector<std::string> SetsOf(const config::KeyTrees& settings);

// A value's text for names and tables: "bf16", "128 MiB", "norms, gelu".
std::string ShortText(const std::string& key, const config::Tree& value);

}  // namespace plimsoll::studies
