#include "formats/base64.h"

#include <gtest/gtest.h>

namespace plimsoll::formats {
namespace {

// RFC 4648, section 10.
TEST(Base64, IsThatOfTheStandard) {
  const auto encoded = [](const std::string& text) {
    return Base64({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encoded("\xff\xfe"), "//4=");
}

}  // namespace
}  // namespace plimsoll::formats
