// Cases 15 to 28: metadata that cannot be read, or says what it must not.
//
// The key at fault stands first: the length of its name at byte 24, a name of one letter at 32, its
// type at 33, its value at 37.
#include <gtest/gtest.h>

#include <span>

#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

constexpr std::uint64_t kMax64 = ~std::uint64_t{0};

/// A key "x" of a type, with bytes of its own choice after it.
std::function<void(Image&)> key_x(std::uint32_t type, const std::string& payload) {
  return [=](Image& m) {
    Image::Key& key = m.first_key("x");
    key.type = type;
    key.payload = payload;
  };
}
/// An array "x" that says its elements' type and number.
std::function<void(Image&)> array_x(std::uint32_t element, std::uint64_t count) {
  return key_x(9, raw(element) + raw(count));
}
std::function<void(Image&)> first_name(const std::string& name) {
  return [=](Image& m) { m.first_key(name); };
}
/// The same without tensors: less than 64 KiB follow.
std::function<void(Image&)> alone(const std::function<void(Image&)>& apply) {
  return [=](Image& m) {
    m.tensors.clear();
    apply(m);
  };
}
std::function<void(Image&)> value(const std::string& key, const GgufData& data) {
  return [=](Image& m) { m.set(key) = data; };
}

TEST(MalformedKeys, Case015EmptyKey) {
  expect_refused({{"empty key (at byte 24)", first_name("")}});
}

TEST(MalformedKeys, Case016KeyLength) {
  const auto length = [](std::uint64_t n) {
    return [n](Image& m) { m.first_key("x").length = n; };
  };
  const std::string too_long = "a key is too long: expected at most 65536 bytes, got ";
  expect_refused({
      {"file ends inside a key: expected 60000 more bytes, got * (at byte 32)",
       alone(length(60'000))},
      {too_long + "65537 (at byte 24)", length(65'537)},
      {too_long + "18446744073709551615 (at byte 24)", length(kMax64)},
      {too_long + "18446744073709551592 (at byte 24)", length(kMax64 - 23)},
  });
}

TEST(MalformedKeys, Case017BytesOfAKey) {
  expect_refused({
      {"NUL byte in a key (at byte 24)", first_name(std::string("a\0b", 3))},
      {"key is not UTF-8 (at byte 24)", first_name("a\xFF")},
      {"key is not UTF-8 (at byte 24)", first_name("\xC0\xAF")},      // overlong
      {"key is not UTF-8 (at byte 24)", first_name("\xED\xA0\x80")},  // a surrogate
  });
}

TEST(MalformedKeys, Case018DuplicateKey) {
  expect_refused({{"duplicate key (key general.name)", first_name("general.name")}});
}

TEST(MalformedKeys, Case019ValueType) {
  expect_refused({
      {"unknown value type: expected 0 to 12, got 13 (key x, at byte 33)", key_x(13, "")},
      {"unknown value type: expected 0 to 12, got 4294967295 (key x, at byte 33)",
       key_x(UINT32_MAX, "")},
      {"unknown value type: expected 0 to 12, got 13 (key a?b?[31m, at byte 40)",  // no control
                                                                                   // characters get
                                                                                   // out
       [](Image& m) { m.first_key("a\nb\x1b[31m").type = 13; }},
  });
}

TEST(MalformedKeys, Case020StringLength) {
  const auto length = [](std::uint64_t n) { return key_x(8, raw(n)); };
  const std::string too_long = "a string is too long: expected at most 67108864 bytes, got ";
  expect_refused({
      {"file ends inside a string: expected 60000 more bytes, got * (key x, at byte 45)",
       alone(length(60'000))},
      {"file ends inside a string: expected 67108864 more bytes, got * (key x, at byte 45)",
       length(64 << 20)},
      {too_long + "67108865 (key x, at byte 37)", length((64 << 20) + 1)},
      {too_long + "18446744073709551615 (key x, at byte 37)", length(kMax64)},
  });
}

TEST(MalformedKeys, Case021ElementTypeAndNesting) {
  const auto nested = [](int levels) {
    std::string payload;
    for (int i = 1; i < levels; ++i) payload += raw(9U) + raw(std::uint64_t{1});
    return key_x(9, payload + raw(0U) + raw(std::uint64_t{0}));
  };
  expect_refused({
      {"unknown value type: expected 0 to 12, got 13 (key x, at byte 37)", array_x(13, 1)},
      {"arrays nested too deep: expected at most 8 levels (key x, at byte *)", nested(9)},
      {"arrays nested too deep: expected at most 8 levels (key x, at byte *)", nested(100'000)},
  });
  Image deepest = valid_model();
  nested(8)(deepest);
  expect_same_answer(deepest);
}

TEST(MalformedKeys, Case022ArraySizeWraps) {
  const std::string says = "array too long: expected at most 16777216 elements, got ";
  expect_refused({
      {says + "2305843009213693953 (key x, at byte 41)", array_x(10, (std::uint64_t{1} << 61) + 1)},
      {says + "4611686018427387905 (key x, at byte 41)", array_x(4, (std::uint64_t{1} << 62) + 1)},
      {says + "18446744073709551615 (key x, at byte 41)", array_x(0, kMax64)},
      {says + "16777217 (key x, at byte 41)", array_x(8, (16 << 20) + 1)},
  });
}

TEST(MalformedKeys, Case023ArrayPastTheEnd) {
  expect_refused({
      {"file ends inside an array: expected 80000000 more bytes, got * (key x, at byte 49)",
       array_x(10, 10'000'000)},
      {"file ends inside an array: expected 16777216 more bytes, got * (key x, at byte 49)",
       array_x(0, 16 << 20)},
      {"a string is too long: expected at most 67108864 bytes, got * (key x, at byte *)",
       key_x(9, raw(8U) + raw(std::uint64_t{16 << 20}) + std::string(80'000, '\0'))},
      {"file ends inside an array: expected * (key x, at byte *)",
       key_x(9, raw(9U) + raw(std::uint64_t{2}) + raw(4U) + raw(std::uint64_t{1 << 20}))},
  });
}

TEST(MalformedKeys, Case024Bool) {
  expect_refused({
      {"bad bool: expected 0 or 1, got 2 (key x, at byte 37)", key_x(7, "\2")},
      {"bad bool: expected 0 or 1, got 255 (key x, at byte 51)",
       key_x(9, raw(7U) + raw(std::uint64_t{3}) + "\1\1\xFF")},
      {"bad bool: expected 0 or 1, got 7 (key tokenizer.ggml.add_bos_token, at byte *)",
       [](Image& m) {
         m.set("tokenizer.ggml.add_bos_token") = true;
         m.key("tokenizer.ggml.add_bos_token").payload = "\7";
       }},
  });
}

TEST(MalformedKeys, Case025Alignment) {
  const std::string says = "bad alignment: expected a power of two from 8 to 1048576, got ",
                    key = "general.alignment";
  expect_refused({
      {says + "0 (key general.alignment)", value(key, 0U)},
      {says + "3 (key general.alignment)", value(key, 3U)},
      {says + "4 (key general.alignment)", value(key, 4U)},
      {says + "2147483648 (key general.alignment)", value(key, 1U << 31)},
      {says + "9223372036854775808 (key general.alignment)", value(key, std::uint64_t{1} << 63)},
      {"wrong type of a key: expected an unsigned integer, got f32 (key general.alignment)",
       value(key, 32.0F)},
      {"wrong type of a key: expected an unsigned integer, got i32 (key general.alignment)",
       value(key, -32)},
  });
  Image wide = valid_model();
  wide.set(key) = 4096U;
  wide.alignment = 4096;
  expect_same_answer(wide);
}

/// The message for a header that is cut after n bytes; they lie in a block of their own for
/// AddressSanitizer's sake.
std::string cut_error(const std::string& header, std::size_t n) {
  const std::vector<char> exact(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(n));
  try {
    GgufFile::from_bytes(std::as_bytes(std::span(exact)), "cut");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// In this process, as there are thousands: each key cut at every byte. Once its name is known
// the error tells it.
TEST(MalformedKeys, Case026CutInsideEachKey) {
  const Image whole = valid_byte_pair_model();
  for (std::size_t i = 1; i < whole.keys.size(); ++i) {
    Image image = whole;
    image.tensors.clear();
    image.key_count = i + 1;
    image.keys.resize(i);
    const std::size_t begin = image.header().size();
    const std::string& name = whole.keys[i].name;
    image.keys.push_back(whole.keys[i]);
    const std::string header = image.header();
    for (std::size_t n = begin; n < header.size(); ++n) {
      const std::string where =
          n < begin + 8 + name.size() ? " (at byte " : " (key " + name + ", at byte ";
      const std::string text = cut_error(header, n);
      ASSERT_NE(text.find(where), std::string::npos) << text << "\nexpected" << where;
    }
  }
}

TEST(MalformedKeys, Case027Architecture) {
  const std::string key = "general.architecture",
                    says = "unknown architecture: expected one of llama, qwen2*, got ";
  expect_refused({
      {"missing key (key general.architecture)", [&](Image& m) { m.erase(key); }},
      {says + "'' (key general.architecture)", value(key, std::string())},
      {says + "'emu' (key general.architecture)", value(key, std::string("emu"))},
      {says + "'llama?' (key general.architecture)", value(key, std::string("llama\n"))},
      {"wrong type of a key: expected string, got u32 (key general.architecture)", value(key, 1U)},
      {"wrong type of a key: expected string, got array of string (key general.architecture)",
       value(key, GgufArray::of(std::vector<std::string>{"llama"}))},
  });
}

TEST(MalformedKeys, Case028FileTypeOfAnotherType) {
  Image image = valid_model();
  image.set("general.file_type") = std::string("Q8_0");
  expect_same_answer(image);
  EXPECT_NE(expect_answer(image, {"-v"})
                .err.find("cria: warning: general.file_type: expected u32, got string\n"),
            std::string::npos);
}

}  // namespace
}  // namespace cria::test
