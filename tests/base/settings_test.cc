#include "base/settings.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/expect_error.h"

namespace plimsoll {
namespace {

std::string ReasonOf(const std::vector<Setting>& rows, Settings settings) {
  try {
    CompleteSettings(rows, {}, settings);
  } catch (const MissingSetting& missing) {
    return missing.name() + ": missing; " + missing.what();
  }
  return "none";
}

TEST(Settings, AreOfTheTypeTheyWereSetWith) {
  Settings settings;
  settings.Set("width", int64_t{4});
  settings.Set("names", std::vector<std::string>{"a"}, "run.yaml:3");
  EXPECT_EQ(settings.Int("width"), 4);
  EXPECT_EQ(settings.List("names").front(), "a");
  EXPECT_EQ(settings.IntOr("height", 7), 7);
  EXPECT_EQ(settings.IntOr("width", 7), 4);
  ExpectInternalError([&] { settings.Float("width"); }, {"'width'", "no number"});
  ExpectInternalError([&] { settings.Int("height"); }, {"'height'", "not set"});
  EXPECT_EQ(settings.Names(), (std::vector<std::string>{"names", "width"}));
}

TEST(Settings, WhatTheFileSaysIsNotDerived) {
  Settings settings;
  settings.Set("width", int64_t{4}, "run.yaml:3");
  settings.Set("height", int64_t{5});
  settings.Derive("width", int64_t{9});
  settings.Derive("height", int64_t{9});
  EXPECT_EQ(settings.Int("width"), 4);
  EXPECT_EQ(settings.Int("height"), 9);
  EXPECT_EQ(settings.At("width"), " (run.yaml:3)");
  EXPECT_EQ(settings.At("height"), "");
}

TEST(Settings, AreEqualByTheirValues) {
  Settings a, b;
  a.Set("width", int64_t{4}, "run.yaml:3");
  b.Set("width", int64_t{4});
  EXPECT_EQ(a, b);
  b.Set("width", int64_t{5});
  EXPECT_NE(a, b);
  b.Set("width", int64_t{4});
  b.Set("height", int64_t{4});
  EXPECT_NE(a, b);
}

TEST(Settings, AreCompletedByTheirRows) {
  const std::vector<Setting> rows = {
      {.name = "width", .doc = "Width.", .required = "give it"},
      {.name = "depth", .doc = "Depth.", .default_value = int64_t{3}},
      {.name = "free", .doc = "Free."}};
  EXPECT_EQ(ReasonOf(rows, {}), "width: missing; give it");
  Settings settings;
  settings.Set("width", int64_t{4});
  CompleteSettings(
      rows, [](Settings& s) { s.Derive("area", s.Int("width") * s.Int("depth")); }, settings);
  EXPECT_EQ(settings.Int("depth"), 3);
  EXPECT_EQ(settings.Int("area"), 12);
  EXPECT_FALSE(settings.Has("free"));
}

}  // namespace
}  // namespace plimsoll
