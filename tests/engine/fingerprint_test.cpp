// Fingerprints, by which side files recognize their model. They depend on the activation's
// parameters and on the last element of a tensor, too.
#include "engine/model_parts.h"

#include <gtest/gtest.h>

#include "tests/engine/architectures/architecture_cases.h"

namespace cria::test {
namespace {

std::uint64_t fingerprint(const TinyArchitecture& tiny) {
  const auto model = tiny.load();
  return computation_fingerprint(*model, model->graph(), 64);
}

TEST(Fingerprint, OfNumbersOfTheActivation) {
  TinyArchitecture tiny(architecture_case("apertus"));
  const std::uint64_t want = fingerprint(tiny);
  EXPECT_EQ(fingerprint(tiny), want);
  for (const char* key : {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"}) {
    const GgufData kept = std::exchange(tiny.keys[key], GgufData(0.25F));
    EXPECT_NE(fingerprint(tiny), want) << key;
    tiny.keys[key] = kept;
  }
}

TEST(Fingerprint, OfTheLastFactorOfFrequencies) {
  TinyArchitecture tiny({"factors",
                         "llama",
                         {{"attention.key_length", 256U}, {"rope.dimension_count", 256U}},
                         {{"rope_freqs.weight", {128}}},
                         0});
  float last = 1;
  tiny.edit = [&](const TinyArchitecture::Tensor& t, std::vector<float>& values) {
    if (t.name == "rope_freqs.weight") values.back() = last;
  };
  const std::uint64_t want = fingerprint(tiny);
  EXPECT_EQ(fingerprint(tiny), want);
  last = 2;
  EXPECT_NE(fingerprint(tiny), want);
}

}  // namespace
}  // namespace cria::test
