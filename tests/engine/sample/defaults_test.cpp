#include "engine/sample/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "model/error.h"
#include "model/gguf/writer.h"

namespace cria::test {
namespace {

/// A file with these keys after general.sampling.
class SamplingDefaults : public testing::Test {
 protected:
  using Keys = std::vector<std::pair<std::string, GgufData>>;
  ~SamplingDefaults() override { std::filesystem::remove(path_); }
  GgufFile file(const Keys& keys) {
    GgufWriter writer(path_);
    for (const auto& [key, value] : keys) writer.set("general.sampling." + key, value);
    writer.begin();
    writer.finish();
    return GgufFile::open(path_);
  }
  std::string refusal(const Keys& keys) {
    SamplerOptions options;
    try {
      set_sampling_defaults(file(keys), options);
    } catch (const Error& error) {
      return std::string(error.what()).substr(path_.size() + 2);
    }
    return "";
  }
  std::string path_ = testing::TempDir() + "cria-sampling-" + std::to_string(::getpid()) + ".gguf";
};

TEST_F(SamplingDefaults, ReadsEveryNumericType) {
  SamplerOptions options;
  set_sampling_defaults(file({{"temp", 0.25},
                              {"top_k", std::uint8_t{7}},
                              {"top_p", 0.5F},
                              {"min_p", 0.125F},
                              {"xtc_probability", std::int32_t{1}},
                              {"xtc_threshold", 0.25F},
                              {"penalty_last_n", std::int64_t{-1}},
                              {"penalty_repeat", 1.5F},
                              {"mirostat", std::uint64_t{2}},
                              {"mirostat_tau", 4.0F},
                              {"mirostat_eta", 0.5F},
                              {"sequence", std::string("top_k;temperature")}}),
                        options);
  EXPECT_EQ(options.temperature, 0.25F);
  EXPECT_EQ(options.top_k, 7);
  EXPECT_EQ(options.top_p, 0.5F);
  EXPECT_EQ(options.min_p, 0.125F);
  EXPECT_EQ(options.xtc_probability, 1.0F);
  EXPECT_EQ(options.xtc_threshold, 0.25F);
  EXPECT_EQ(options.repeat_last_n, -1);
  EXPECT_EQ(options.repeat_penalty, 1.5F);
  EXPECT_EQ(options.mirostat, 2);
  EXPECT_EQ(options.mirostat_tau, 4.0F);
  EXPECT_EQ(options.mirostat_eta, 0.5F);
  EXPECT_EQ(options.steps, (std::vector{SamplerStep::TopK, SamplerStep::Temperature}));
  EXPECT_EQ(std::ranges::count_if(kSamplerOptions, [](const auto& o) { return !o.gguf.empty(); }),
            12);
}

TEST_F(SamplingDefaults, KeepsOtherOptions) {
  SamplerOptions options;
  options.temperature = 0.5F;
  set_sampling_defaults(file({}), options);
  set_sampling_defaults(file({{"temp", 0.25F}, {"top_k", std::int32_t{3}}}), options,
                        [](const SamplerOption& option) { return option.gguf != "temp"; });
  EXPECT_EQ(options.temperature, 0.5F);
  EXPECT_EQ(options.top_k, 3);
}

TEST_F(SamplingDefaults, NamesTheKeyOfAnInvalidValue) {
  EXPECT_EQ(refusal({{"temp", std::string("hot")}}),
            "wrong type of a key: expected a number, got string (key general.sampling.temp)");
  EXPECT_EQ(refusal({{"temp", true}}),
            "wrong type of a key: expected a number, got bool (key general.sampling.temp)");
  EXPECT_EQ(refusal({{"min_p", -1.0F}}),
            "min_p: expected a number from 0 to 1, got -1 (key general.sampling.min_p)");
  EXPECT_EQ(refusal({{"min_p", 1.5F}}),
            "min_p: expected a number from 0 to 1, got 1.5 (key general.sampling.min_p)");
  EXPECT_NE(refusal({{"temp", std::numeric_limits<float>::quiet_NaN()}}), "");
  EXPECT_EQ(refusal({{"top_k", 2.5F}}),
            "top_k: expected a whole number from -1 on, got 2.5 (key general.sampling.top_k)");
  EXPECT_NE(refusal({{"top_k", std::int64_t{1} << 40}}), "");
  EXPECT_NE(refusal({{"top_p", 1.5F}}), "");
  EXPECT_NE(refusal({{"mirostat", std::int32_t{3}}}), "");
  EXPECT_NE(refusal({{"penalty_repeat", 0.0F}}), "");
  EXPECT_NE(refusal({{"sequence", 1.0F}}), "");
  EXPECT_NE(refusal({{"sequence", std::string("top_k;magic")}}), "");
  EXPECT_EQ(refusal({{"temp", 0.0F}}), "");
}

TEST_F(SamplingDefaults, AcceptsOtherProgramsNeutralValues) {
  SamplerOptions options;
  set_sampling_defaults(file({{"temp", -1.0F},
                              {"top_k", std::int32_t{-1}},
                              {"sequence", std::string("nucleus;typ;temp")}}),
                        options);
  EXPECT_EQ(options.temperature, 0);
  EXPECT_EQ(options.top_k, 0);
  EXPECT_EQ(options.steps,
            (std::vector{SamplerStep::TopP, SamplerStep::Typical, SamplerStep::Temperature}));
}

TEST_F(SamplingDefaults, DescribesValuesAndTheirOrigin) {
  const GgufFile said = file({{"temp", 0.2F}, {"top_k", std::int32_t{10}}});
  SamplerOptions options;
  set_sampling_defaults(said, options);
  EXPECT_EQ(sampling_text(options, said),
            "temp 0.2, top_k 10, top_p 0.95, min_p 0.05 (the model's: temp, top_k)");
  options.top_k = 20;
  EXPECT_EQ(sampling_text(options, said),
            "temp 0.2, top_k 20, top_p 0.95, min_p 0.05 (the model's: temp)");
  options.temperature = 0;
  EXPECT_EQ(sampling_text(options, said), "temp 0");
}

TEST_F(SamplingDefaults, TextShowsOptionsWithoutAKey) {
  const GgufFile said = file({{"top_k", std::int32_t{10}}});
  SamplerOptions options;
  set_sampling_defaults(said, options);
  options.typical_p = 0.5F;
  options.top_n_sigma = 2;
  options.dynatemp_range = 0.25F;
  options.presence_penalty = 1;
  options.frequency_penalty = -1;
  options.dry_multiplier = 0.75F;
  options.logit_bias = {{3, 1.0F}};
  const std::string penalties =
      "presence_penalty 1, frequency_penalty -1, dry_multiplier 0.75, dry_base 1.75, "
      "dry_allowed_length 2, dry_last_n -1, logit_bias of 1 token";
  EXPECT_EQ(sampling_text(options, said),
            "temp 0.8, dynatemp_range 0.25, dynatemp_exponent 1, top_k 10, top_p 0.95, min_p 0.05, "
            "typical_p 0.5, top_n_sigma 2, " +
                penalties + " (the model's: top_k)");
  options.temperature = 0;
  options.repeat_penalty = 1.5F;
  EXPECT_EQ(sampling_text(options, said),
            "temp 0, penalty_repeat 1.5, penalty_last_n 64, " + penalties);
}

TEST(SamplingValue, HasTheTypeOfItsKey) {
  EXPECT_EQ(sampling_value("temp", 0.5), GgufData(0.5F));
  EXPECT_EQ(sampling_value("top_k", 20), GgufData(std::int32_t{20}));
  EXPECT_EQ(sampling_value("top_k", -1), GgufData(std::int32_t{0}));
  EXPECT_THROW(sampling_value("top_k", 0.5), Error);
  EXPECT_THROW(sampling_value("top_p", 2), Error);
  EXPECT_THROW(sampling_value("sequence", 1), Error);
}

}  // namespace
}  // namespace cria::test
