// Expectations about the errors that code throws, their messages, and texts.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/settings.h"
#include "tests/support/expect_error.h"

namespace plimsoll {

// The message of the Error that `action` throws, none when it throws nothing; other exceptions
// pass. A UserError of several lines fails the test.
template <typename Error, typename Action>
std::optional<std::string> MessageOf(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    if constexpr (std::is_same_v<Error, UserError>) {
      EXPECT_EQ(message.find('\n'), message.npos) << message;
    }
    return message;
  }
  return std::nullopt;
}

// The message of the UserError that `action` throws; the test fails when it throws none.
template <typename Action>
std::string UserErrorOf(Action&& action) {
  const std::optional<std::string> message = MessageOf<UserError>(action);
  if (!message) ADD_FAILURE() << "expected a UserError";
  return message.value_or("");
}

// The message of the SettingError about `setting` that `action` throws; the test fails when it
// throws none.
template <typename Action>
std::string SettingErrorOf(std::string_view setting, Action&& action) {
  try {
    action();
  } catch (const SettingError& error) {
    EXPECT_EQ(error.name(), setting);
    return error.what();
  }
  ADD_FAILURE() << "expected a SettingError about " << setting;
  return "";
}

// Expects a text that holds all of `parts`.
inline void ExpectText(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    EXPECT_NE(text.find(part), text.npos) << "no '" << part << "' in: " << text;
  }
}

// Expects a message that holds all of `parts`.
inline void ExpectMessage(const std::optional<std::string>& message,
                          std::initializer_list<std::string_view> parts) {
  ASSERT_TRUE(message) << "expected an error";
  ExpectText(*message, parts);
}

// Expects `action` to throw a UserError of one line that holds all of `parts`.
template <typename Action>
void ExpectUserError(Action&& action, std::initializer_list<std::string_view> parts) {
  ExpectMessage(MessageOf<UserError>(action), parts);
}

// Expects `action` to throw an InternalError that holds all of `parts`.
template <typename Action>
void ExpectInternalError(Action&& action, std::initializer_list<std::string_view> parts) {
  ExpectMessage(MessageOf<InternalError>(action), parts);
}

}  // namespace plimsoll
