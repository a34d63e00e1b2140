// Cases 45 to 64: the tensor table, and data that is not where it says.
#include <gtest/gtest.h>

#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

constexpr std::uint64_t kTop = std::uint64_t{1} << 63;
constexpr const char* kUp = "blk.1.ffn_up.weight";
const std::string kInUp = " (tensor blk.1.ffn_up.weight)";

/// Changes one tensor of many.
std::function<void(Image&)> up(const std::function<void(Image::Tensor&)>& change) {
  return [=](Image& m) { change(m.tensor(kUp)); };
}
std::function<void(Image&)> shape(const std::vector<std::uint64_t>& dimensions) {
  return up([=](Image::Tensor& t) { t.shape = dimensions; });
}
std::function<void(Image&)> type(std::uint32_t id) {
  return up([=](Image::Tensor& t) { t.type = id; });
}
std::function<void(Image&)> offset(std::uint64_t n) {
  return up([=](Image::Tensor& t) { t.offset = n; });
}
/// The first tensor of a file without keys: the length of its name stands at byte 24.
std::function<void(Image&)> first(const std::function<void(Image::Tensor&)>& change) {
  return [=](Image& m) {
    m.keys.clear();
    change(m.tensors.front());
  };
}

TEST(MalformedTensors, Case045NameLength) {
  const auto length = [](std::uint64_t n) {
    return first([n](Image::Tensor& t) { t.length = n; });
  };
  const std::string too_long = "a tensor name is too long: expected at most 65536 bytes, got ";
  expect_refused({
      {"empty tensor name (at byte 24)", first([](Image::Tensor& t) { t.name.clear(); })},
      {too_long + "65537 (at byte 24)", length(65'537)},
      {too_long + "18446744073709551615 (at byte 24)", length(~std::uint64_t{0})},
      {"file ends inside a tensor name: expected 65536 more bytes, got * (at byte 32)",
       [&](Image& m) {
         length(65'536)(m);
         for (Image::Tensor& t : m.tensors) t.data.clear();
       }},
  });
  Image odd = valid_model();
  odd.tensors.push_back({std::string(64, 'x'), {1}, 0, std::string(4, '\0')});
  expect_same_answer(odd);
  EXPECT_NE(expect_answer(odd, {"-v"}).err.find("tensor name longer than 63 bytes"),
            std::string::npos);
}

TEST(MalformedTensors, Case046BytesOfAName) {
  const auto name = [](const std::string& text) {
    return first([text](Image::Tensor& t) { t.name = text; });
  };
  expect_refused({{"NUL byte in a tensor name (at byte 24)", name(std::string("a\0b", 3))},
                  {"tensor name is not UTF-8 (at byte 24)", name("a\xFF")}});
}

TEST(MalformedTensors, Case047DuplicateName) {
  expect_refused({{"duplicate tensor (tensor blk.1.ffn_gate.weight)",
                   up([](Image::Tensor& t) { t.name = "blk.1.ffn_gate.weight"; })}});
}

TEST(MalformedTensors, Case048Dimensions) {
  const auto dimensions = [](std::uint32_t n) {
    return up([n](Image::Tensor& t) { t.dimensions = n; });
  };
  const std::string says = "bad number of dimensions: expected 1 to 4, got ";
  expect_refused({{says + "0" + kInUp, shape({})},
                  {says + "5" + kInUp, shape({64, 256, 1, 1, 1})},
                  {says + "4294967295" + kInUp, dimensions(UINT32_MAX)}});
}

TEST(MalformedTensors, Case049DimensionOf0) {
  expect_refused({{"a dimension is 0: shape [0, 256]" + kInUp, shape({0, 256})},
                  {"a dimension is 0: shape [64, 0]" + kInUp, shape({64, 0})}});
}

TEST(MalformedTensors, Case050DimensionAbove2To63) {
  const std::string says = "tensor size overflows: shape ";
  expect_refused({{says + "[9223372036854775808]" + kInUp, shape({kTop})},
                  {says + "[64, 9223372036854775809]" + kInUp, shape({64, kTop + 1})},
                  {says + "[64, 18446744073709551615]" + kInUp, shape({64, ~std::uint64_t{0}})}});
}

TEST(MalformedTensors, Case051ProductOverflows) {
  const std::uint64_t n = (std::uint64_t{1} << 42) + 1;
  expect_refused({
      {"tensor size overflows: shape [64, 4398046511105, 4398046511105]" + kInUp,
       shape({64, n, n})},
      {"tensor size overflows: shape [4294967296, 4294967296]" + kInUp,
       shape({std::uint64_t{1} << 32, std::uint64_t{1} << 32})},
  });
}

TEST(MalformedTensors, Case052BytesOverflow) {
  expect_refused(
      {{"tensor size overflows: shape [4611686018427387904]" + kInUp, up([](Image::Tensor& t) {
          t.type = 0;
          t.shape = {kTop / 2};  // times 4 bytes
        })}});
}

TEST(MalformedTensors, Case053RowNotOfBlocks) {
  const std::string says = "row length does not fit the type: expected a multiple of ";
  expect_refused({{says + "32 for Q8_0, got 65" + kInUp, shape({65, 256})},
                  {says + "256 for Q4_K, got 64" + kInUp, type(12)},
                  {says + "256 for IQ2_XXS, got 64" + kInUp, type(16)}});
}

TEST(MalformedTensors, Case054UnknownTypes) {
  std::vector<Defect> defects;
  for (const std::uint32_t id : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U})
    defects.push_back(
        {"unknown tensor type: got " + std::to_string(id) + ", removed from the format" + kInUp,
         type(id)});
  for (const std::uint32_t id : {1000U, UINT32_MAX})
    defects.push_back({"unknown tensor type: got " + std::to_string(id) + kInUp, type(id)});
  expect_refused(defects);
}

TEST(MalformedTensors, Case055TypesOfActivations) {
  const auto down = [](std::uint32_t id, std::uint64_t row_bytes) {
    return [=](Image& m) {
      Image::Tensor& t = m.tensor("blk.0.ffn_down.weight");  // rows of 256
      t.type = id;
      t.data.assign(64 * row_bytes, '\0');
    };
  };
  const std::string says = "type cannot be a weight matrix: got ",
                    where = " (tensor blk.0.ffn_down.weight)";
  expect_refused({{says + "Q8_1" + where, down(9, 8 * 36)},
                  {says + "Q8_K" + where, down(15, 292)},
                  {says + "I8" + where, down(24, 256)},
                  {says + "F64" + where, down(28, 2048)}});
}

TEST(MalformedTensors, Case056TypesOfForks) {
  std::vector<Defect> defects;
  for (const std::uint32_t id : {97U, 136U, 396U})
    defects.push_back({"unknown tensor type: got " + std::to_string(id) +
                           ", a type of the ik_llama.cpp fork" + kInUp,
                       type(id)});
  for (const std::uint32_t id : {42U, 96U})
    defects.push_back(
        {"unknown tensor type: got " + std::to_string(id) + ", newer than this program" + kInUp,
         type(id)});
  expect_refused(defects);
}

TEST(MalformedTensors, Case057MisalignedOffset) {
  expect_refused(
      {{"misaligned offset: expected a multiple of 32, got 33" + kInUp, offset(33)},
       {"misaligned offset: expected a multiple of 32, got 18446744073709551615" + kInUp,
        offset(~std::uint64_t{0})},
       {"misaligned offset: expected a multiple of 64, got 17440 (tensor *)", [](Image& m) {
          m.set("general.alignment") = 64U;
          m.tensors[1].offset = 17440;
        }}});
}

TEST(MalformedTensors, Case058OffsetAndSizeWrap) {
  expect_refused(
      {{"offset past any file: got 18446744073709551584" + kInUp, offset(~std::uint64_t{31})},
       {"offset past any file: got 9223372036854775808" + kInUp, offset(kTop)}});
}

TEST(MalformedTensors, Case059OffsetPastTheEnd) {
  expect_refused(
      {{"file ends before the tensor's data: expected at least * bytes, got *, * missing" + kInUp,
        offset(1 << 30)},
       {"file ends before the tensor's data: expected at least * bytes, got *, * missing" + kInUp,
        offset(std::uint64_t{1} << 61)}});
}

TEST(MalformedTensors, Case060OneByteShort) {
  const std::size_t n = valid_model().bytes().size();
  expect_refused(
      {{"file ends before the tensor's data: expected at least " + std::to_string(n) +
            " bytes, got " + std::to_string(n - 1) + ", 1 missing (tensor output.weight)",
        [](Image& m) { m.tensors.back().data.pop_back(); }}});
}

TEST(MalformedTensors, Case061Overlap) {
  const std::string says = "tensor overlaps the one before it: expected an offset of at least ";
  expect_refused({{says + "18088, got 0 (tensor output_norm.weight)",
                   [](Image& m) { m.tensor("output_norm.weight").offset = 0; }},
                  {says + "18088, got 0 (tensor blk.0.attn_norm.weight)",
                   [](Image& m) { m.tensors[1].offset = 0; }},
                  {says + "18088, got 18080 (tensor blk.0.attn_norm.weight)",
                   [](Image& m) { m.tensors[1].offset = 18080; }}});
}

TEST(MalformedTensors, Case062OffsetWrapsIntoTheHeader) {
  const Image valid = valid_model();
  const std::uint64_t begin = (valid.header().size() + 31) / 32 * 32;
  expect_refused(
      {{"offset past any file: got " + std::to_string(0 - begin) + kInUp, offset(0 - begin)},
       {"offset past any file: got 18446744073709551584" + kInUp, offset(0 - std::uint64_t{32})}});
}

TEST(MalformedTensors, Case063DataSectionPastTheEnd) {
  const std::string header = valid_model().header();
  for (const std::size_t n : {header.size(), (header.size() + 31) / 32 * 32}) {
    expect_bytes_refused(header + std::string(n - header.size(), '\0'),
                         "file ends before the tensor's data: expected at least * bytes, got " +
                             std::to_string(n) + ", * missing (tensor token_embd.weight)");
  }
}

TEST(MalformedTensors, Case064TotalWraps) {
  expect_refused(
      {{"file ends before the tensor's data: expected at least * bytes, got *, * missing (tensor "
        "blk.0.attn_q.weight)",
        [](Image& m) {
          for (Image::Tensor& t : m.tensors) {
            if (t.shape.size() != 2 || t.name == "token_embd.weight") continue;
            t.shape = {std::uint64_t{1} << 61};  // 2^61 bytes of Q8_0 each: 8 of them wrap
          }
        }}});
}

TEST(MalformedTensors, GapsTrailingBytesAndUnknownTensors) {
  Image gap = valid_model();
  gap.tensors.insert(gap.tensors.begin() + 3, {"unused", {1024}, 0, std::string(4096, '\1')});
  expect_same_answer(gap);
  EXPECT_NE(expect_answer(gap, {"-v"}).err.find("1 unknown tensor is not used: unused"),
            std::string::npos);
  gap.remove("unused");  // and now a hole in its place
  std::uint64_t place = 0;
  for (Image::Tensor& t : gap.tensors) {
    t.offset = place;
    place += (t.data.size() + 31) / 32 * 32 + 4096;
    t.data.resize((t.data.size() + 31) / 32 * 32 + 4096, '\2');
  }
  expect_same_answer(gap);
  Image tail = valid_model();
  tail.tail = std::string(1000, 'x');
  expect_same_answer(tail);
}

TEST(MalformedTensors, OlderVersionsLoad) {
  for (const std::uint32_t version : {1U, 2U}) {
    Image old = valid_model();
    old.version = version;
    expect_same_answer(old);
  }
}

}  // namespace
}  // namespace cria::test
