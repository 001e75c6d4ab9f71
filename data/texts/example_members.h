// The members of an example, each of which is read, refused by name, or changes nothing.
//
//   {"text"}   {"prompt", "completion"}   {"messages"}   {"conversations"}   {"instruction"}
//   {"prompt", "chosen", "rejected"}      {"text", "text_pair", "label"}
#pragma once

#include <string>

#include "formats/json.h"

namespace plimsoll::data {

// Refuses, by UserErrors that name the place and the member, what would change an example's meaning
// if it were passed over: a second text, a vote against the answer, a weight, calls of tools.
// `form`: the member that determines the example's kind,
// "chosen" for preferences and "label" for labelled texts. A member that no rule knows is named in
// one warning.
void CheckMembers(const formats::JsonObject& object, const std::string& form);

// Refuses lists that a table has written as a text.
void RefuseWrittenLists(const formats::JsonObject& object);

// Refuses members that only chats have, in an example of texts.
void RequireNoChat(const formats::JsonObject& object);

}  // namespace plimsoll::data
